"""The page as a whole: keyboard, theme, token and errors."""

import re
from pathlib import Path
from typing import Any

from tests.browser import needs_browser
from tests.serve.visitor import TOKEN, Visit

pytestmark = needs_browser


def test_the_page_works_with_the_keyboard_alone(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit = Visit(browser, address)
    visit.panel_id = "powder"
    visit.answer_with("v1/index", indexed[1])
    visit.panel.wait_for()
    press, outlines = visit.page.keyboard.press, list[str]()

    def tab_to(selector: str) -> None:
        """Press Tab until an element has the focus; record the outline at every stop."""
        for _ in range(40):
            press("Tab")
            focus = "(e => e.matches('.drop input') ? e.parentElement : e)(document.activeElement)"
            outline = f"getComputedStyle({focus}).outlineStyle"
            outlines.append(visit.page.evaluate(outline))
            if visit.page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"{selector} cannot be reached")

    tab_to("#tab-powder")
    tab_to("#powder .example")
    press("Enter")
    visit.panel.locator(".verdict").wait_for()
    tab_to("#powder .plot")
    press("ArrowRight")
    first = visit.panel.locator(".readout").inner_text()
    press("ArrowRight")
    assert "reflection (" in first != visit.panel.locator(".readout").inner_text()
    press("+")
    press("0")
    tab_to("#powder input[type=radio]")
    press("ArrowDown")
    assert "reflections of cell 2" in visit.panel.locator(".legend").inner_text()
    visit.page.locator("#tab-powder").focus()
    press("ArrowRight")
    visit.panel_id = "image"
    assert visit.panel.is_visible()
    tab_to("#image .slate")
    for key in (" ", *["ArrowDown"] * 12, " ", *["ArrowRight"] * 3):
        press(key)
    visit.panel.locator(".bars li").first.wait_for()
    tab_to("#image .draw button")
    press("Enter")
    visit.panel.get_by_text("The prediction appears here.").wait_for()
    tab_to("#image .thumb")
    press("Enter")
    visit.panel.locator(".bars li").first.wait_for()
    visit.page.locator("#tab-image").focus()
    press("End")
    visit.panel_id = "spectra"
    tab_to("#spectra .example")
    press("Enter")
    visit.panel.locator(".plot canvas").wait_for()
    assert set(outlines) == {"solid"}
    assert visit.errors == []


def test_the_theme_follows_the_system_until_chosen(browser: Any, address: str) -> None:
    def paper(visit: Visit) -> int:
        return sum(
            map(int, re.findall(r"\d+", visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
        )

    dark, light = (Visit(browser, address, "powder", scheme=scheme) for scheme in ("dark", "light"))
    assert paper(dark) < 150 < 600 < paper(light)
    light.page.get_by_role("button", name="Change between dark and light").click()
    assert paper(light) < 150
    light.page.reload()
    assert paper(light) < 150


def test_a_token_is_requested_and_missing_panels_are_listed(
    browser: Any, address_with_token: str, tmp_path: Path
) -> None:
    visit = Visit(browser, address_with_token, "powder")
    field = visit.page.get_by_label("Token", exact=True)
    field.fill("wrong-token")
    visit.page.get_by_role("button", name="Continue").click()
    visit.page.get_by_text("That token is wrong.").wait_for()
    field.fill(TOKEN)
    field.press("Enter")
    visit.panel.get_by_role("heading", name="Unit cell from a powder pattern").wait_for()
    assert visit.page.get_by_role("tab").count() == 0
    more = visit.page.locator("footer").inner_text()
    assert "vitreous serve runs/digits" in more
    assert "vitreous serve --powder" not in more
    visit.page.reload()
    visit.panel.get_by_role("heading", name="Unit cell from a powder pattern").wait_for()
    visit.errors = [error for error in visit.errors if "401" not in error]
    visit.check(tmp_path / "page.png")


def test_an_invalid_token_is_refused_in_the_dialog(browser: Any, address_with_token: str) -> None:
    visit = Visit(browser, address_with_token, "powder")
    field = visit.page.get_by_label("Token", exact=True)
    field.fill(TOKEN.replace("-", "–"))
    field.press("Enter")
    visit.page.get_by_role("dialog").get_by_text("only ASCII").wait_for()
    field.fill("wrong-token")
    field.press("Enter")
    visit.page.get_by_text("That token is wrong.").wait_for()
    assert visit.page.evaluate("sessionStorage.length") == 0
    visit.page.reload()
    field.fill(TOKEN)
    field.press("Enter")
    visit.panel.wait_for()
    assert visit.page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_the_page_works_without_browser_storage(browser: Any, address_with_token: str) -> None:
    visit = Visit(browser, address_with_token, "powder")
    refuse = "{ get() { throw new DOMException('', 'SecurityError'); } }"
    for storage in ("sessionStorage", "localStorage"):
        visit.context.add_init_script(f"Object.defineProperty(window, '{storage}', {refuse})")
    visit.page.reload()
    visit.page.get_by_label("Token", exact=True).fill(TOKEN)
    visit.page.get_by_role("button", name="Continue").click()
    visit.panel.wait_for()


def test_a_stopped_service_is_an_error_message(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.panel.wait_for()
    visit.page.route("**/v1/index", lambda route: route.abort())
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.panel.get_by_role("alert").get_by_text("The service does not respond. Is it still running?").wait_for()
