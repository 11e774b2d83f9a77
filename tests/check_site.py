"""Open every page of a built site in headless Chromium and report what a reader would trip over.

Usage: python tests/check_site.py build/book/_build/html [--screenshots FOLDER]

A page fails on: a console error, a request that leaves the machine, mathematics that is not rendered, raw directive or
role text, a broken internal link or image, or content wider than the page.
"""

import argparse
import functools
import http.server
import re
import sys
import threading
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlparse

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Text that stays visible when a directive, a role or a formula was not understood.
RAW = ("{glue", ":::", "{prf:", "{cite", "{eq}", "{doc}", "$$", "\\begin{", "```")
REDIRECT = re.compile(r"""http-equiv="Refresh"[^>]*url=([^"'>]+)""", re.IGNORECASE)
VIEWS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that keeps its log to itself."""

    def log_message(self, *args: object) -> None:
        """Print nothing."""


class Server(http.server.ThreadingHTTPServer):
    """A server that does not mind a browser closing a page early."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Print all but broken connections."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    """Serve a folder on a free port of 127.0.0.1."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def visit(page: Page, url: str, faults: list[str]) -> None:
    """Load one page and wait until its mathematics is typeset."""
    page.goto(url, wait_until="load")
    if page.locator("span.math, div.math").count():
        try:
            page.wait_for_function(
                "() => [...document.querySelectorAll('span.math, div.math')].every(e => e.querySelector('mjx-container'))",
                timeout=20_000,
            )
        except Exception:
            faults.append("mathematics is not rendered")
    if page.locator("mjx-merror, [data-mjx-error]").count():
        faults.append("a formula has an error")


def faults_of(page: Page, url: str, root: Path) -> list[str]:
    """Everything wrong with one loaded page."""
    faults: list[str] = []
    visit(page, url, faults)
    # Code may hold what would be raw markup in prose.
    text = page.evaluate(
        "() => { const c = document.querySelector('main').cloneNode(true);"
        " c.querySelectorAll('pre, code, script, style, mjx-container').forEach(e => e.remove()); return c.textContent; }"
    )
    faults += [f"raw text {raw!r}" for raw in RAW if raw in text]
    for image in page.locator("main img").all():
        if not image.evaluate("e => e.complete && e.naturalWidth > 0"):
            faults.append(f"broken image {image.get_attribute('src')}")
        if not (image.get_attribute("alt") or "").strip():
            faults.append(f"image without alternative text {image.get_attribute('src')}")
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 1:
        faults.append(f"{wide} pixels wider than the page")
    for href in page.eval_on_selector_all("a[href]", "links => links.map(a => a.getAttribute('href'))"):
        faults += broken(urljoin(page.url, href), root)
    return faults


@functools.cache
def _page_source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def broken(target: str, root: Path) -> list[str]:
    """Why an internal link does not lead anywhere, if so."""
    address, anchor = urldefrag(target)
    parts = urlparse(address)
    if parts.hostname != "127.0.0.1":
        return []
    path = root / parts.path.lstrip("/")
    path = path / "index.html" if path.is_dir() else path
    if not path.is_file():
        return [f"broken link {parts.path}"]
    if anchor and path.suffix == ".html" and f'id="{anchor}"' not in _page_source(path):
        return [f"broken anchor {parts.path}#{anchor}"]
    return []


def listen(page: Page, faults: list[str]) -> None:
    """Note console errors, script errors, and requests to other hosts."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if urlparse(request.url).hostname not in {"127.0.0.1", None}:
            faults.append(f"request to {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    page.on("request", on_request)


def check(browser: Browser, root: Path, screenshots: Path | None) -> int:
    """Check all pages in all views; print faults and return their number."""
    server = serve(root)
    base = f"http://127.0.0.1:{server.server_port}/"
    pages = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.html") if "_static" not in p.parts)
    total = 0
    for view, (width, scheme) in VIEWS.items():
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        for name in pages:
            faults: list[str] = []
            moved = REDIRECT.search(_page_source(root / name))
            if moved:  # a page that leaves at once: what counts is where it leads
                for fault in broken(urljoin(base + name, moved[1]), root):
                    print(f"{view} {name}: {fault}")
                    total += 1
                continue
            page = context.new_page()
            listen(page, faults)
            faults += faults_of(page, base + name, root)
            if screenshots:
                target = screenshots / view / f"{name.replace('/', '-')}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=target, full_page=True)
            page.close()
            for fault in dict.fromkeys(faults):
                print(f"{view} {name}: {fault}")
            total += len(faults)
        context.close()
    server.shutdown()
    print(f"{len(pages)} pages in {len(VIEWS)} views: {total} faults")
    return total


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    if not (arguments.site / "index.html").is_file():
        parser.error(f"{arguments.site} holds no index.html: run make book first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        faults = check(browser, arguments.site.resolve(), arguments.screenshots)
        browser.close()
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
