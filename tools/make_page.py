"""Fetch what the web page and its tests take from npm, and check the types of the page's own modules.

Run by `make page`; needs npm and the network. What it fetches is committed, so that nobody else needs either.
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
KEPT = {
    UPLOT: {
        "dist/uPlot.iife.min.js": VENDOR / "uplot.min.js",
        "dist/uPlot.min.css": VENDOR / "uplot.min.css",
        "LICENSE": VENDOR / "uplot.LICENSE.txt",
    },
    AXE: {"axe.min.js": TESTS / "axe.min.js", "LICENSE": TESTS / "axe.LICENSE.txt"},
}
"""Files of each package, and where they are kept."""


def fetch(package: str, folder: Path) -> Path:
    """A package, unpacked."""
    found = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True)
    with tarfile.open(folder / found.stdout.split()[-1]) as archive:
        archive.extractall(folder / package, filter="data")
    return folder / package / "package"


def check_types(types: Path, folder: Path) -> None:
    """The modules against their JSDoc, and against the types of uPlot."""
    settings = json.loads((ROOT / "tools" / "page.tsconfig.json").read_text("utf-8"))
    settings["compilerOptions"]["paths"] = {"uplot": [str(types)]}
    settings["include"] = [str(PAGE / "*.js")]
    (folder / "tsconfig.json").write_text(json.dumps(settings), "utf-8")
    subprocess.run(["npx", "--yes", "--package", TYPESCRIPT, "tsc", "--project", folder / "tsconfig.json"], check=True)


def main() -> None:
    """Fetch, keep and check."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package, files in KEPT.items():
            source = fetch(package, folder)
            for path, kept in files.items():
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / path, kept)
                print(f"{package} {path} -> {kept.relative_to(ROOT)}")
        check_types(folder / UPLOT / "package" / "dist" / "uPlot.d.ts", folder)
    print("types: good")


if __name__ == "__main__":
    main()
