"""Fetch the npm packages of the web page and its tests, and check the types of the page's modules.

Run by `make page`; needs npm and the network. The fetched files are committed, so nothing else needs npm.
"""

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "vitreous" / "serve" / "page"
VENDOR, TESTS = PAGE / "vendor", ROOT / "tests" / "serve" / "vendor"
UPLOT, AXE, TYPESCRIPT = "uplot@1.6.32", "axe-core@4.14.0", "typescript@7.0.2"
FILES = {
    UPLOT: {
        "dist/uPlot.iife.min.js": VENDOR / "uplot.min.js",
        "dist/uPlot.min.css": VENDOR / "uplot.min.css",
        "LICENSE": VENDOR / "uplot.LICENSE.txt",
    },
    AXE: {"axe.min.js": TESTS / "axe.min.js", "LICENSE": TESTS / "axe.LICENSE.txt"},
}
"""Files of each package and where they are stored."""


def fetch(package: str, folder: Path) -> Path:
    """Download and unpack a package; return its folder."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder / package, filter="data")
    return folder / package / "package"


def check_types(types: Path, folder: Path) -> None:
    """Check the modules against their JSDoc types and the types of uPlot."""
    settings = json.loads((ROOT / "tools" / "page.tsconfig.json").read_text("utf-8"))
    settings["compilerOptions"]["paths"] = {"uplot": [str(types)]}
    settings["include"] = [str(PAGE / "*.js")]
    (folder / "tsconfig.json").write_text(json.dumps(settings), "utf-8")
    subprocess.run(["npx", "--yes", "--package", TYPESCRIPT, "tsc", "--project", folder / "tsconfig.json"], check=True)


def main() -> None:
    """Fetch the packages, copy their files and check types."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package, files in FILES.items():
            source = fetch(package, folder)
            for path, target in files.items():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / path, target)
                print(f"{package} {path} -> {target.relative_to(ROOT)}")
        check_types(folder / UPLOT / "package" / "dist" / "uPlot.d.ts", folder)
    print("types: no errors")


if __name__ == "__main__":
    main()
