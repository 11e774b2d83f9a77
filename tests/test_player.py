"""The chain player: its Python side, and its behaviour in headless Chromium."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from check_site import CHROMIUM, FLAGS
from checkpoints import SENTENCE
from playwright.sync_api import Browser, Locator, Page, sync_playwright

import glauber
from glauber.errors import ParameterError
from glauber.player import Film, film, player

ADDRESS = "http://player.test/"
# Nothing here may act as markup, as a placeholder of the template or as the end of the data.
WORDS = ["heart", "</script>", "<b>bold</b>", "@DATA@", "$x$", "&amp;", "τ", "ing", "'\"", "<!--", "\\", ""]


def random_film(records: int = 40, n: int = 9, *, title: str = "A < B & C", seed: int = 1) -> Film:
    """Up to two tokens redrawn per record; the steps are not evenly spaced."""
    rng = np.random.default_rng(seed)
    states = [rng.integers(len(WORDS), size=n)]
    for _ in range(records - 1):
        states.append(states[-1].copy())
        for _ in range(rng.integers(3)):
            states[-1][rng.integers(n)] = rng.integers(len(WORDS))
    steps = np.cumsum(rng.integers(1, 90, size=records)).tolist()
    joined = (rng.random((records, n)) < 0.3).tolist()
    distance = np.abs(np.cumsum(rng.normal(0, 0.1, size=records))).round(3).tolist()
    return Film(title, steps, [[WORDS[i] for i in row] for row in states], joined, distance, 0.64)


FILM = random_film()
LAST = len(FILM.steps) - 1


def shown_text(one: Film, k: int) -> str:
    assert one.joined is not None
    glued = [True, *one.joined[k][1:]]
    return "".join(token if j else f" {token}" for token, j in zip(one.tokens[k], glued, strict=True))


def ages(one: Film, k: int) -> dict[int, int]:
    """Records since each token last changed, up to eight."""
    past = range(max(1, k - 8), k + 1)
    n = len(one.tokens[0])
    return {i: k - j for j in past for i in range(n) if one.tokens[j - 1][i] != one.tokens[j][i]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": []}, "steps of film .* is empty: give"),
        ({"steps": [*range(LAST), LAST - 1]}, "has 38 at record 39: give whole numbers in strictly ascending"),
        ({"steps": [0.5, *range(1, LAST + 1)]}, r"has 0\.5 at record 0: give whole"),
        ({"tokens": FILM.tokens[:-1]}, "tokens of film .* has 39 rows but steps has 40: give"),
        ({"tokens": [*FILM.tokens[:-1], ["a"]]}, "tokens of film .* has 1 entries at record 39, not 9: give"),
        ({"tokens": [[]] * 40, "joined": None}, "0 tokens per record: give"),
        ({"joined": [[True]] * 40}, "joined of film .* has 1 entries at record 0, not 9: give"),
        ({"changed": [[True] * 9]}, "changed of film .* has 1 rows but steps has 40: give"),
        ({"distance": [0.0]}, "distance of film .* has 1 values but steps has 40: give"),
        ({"distance": [*[0.0] * LAST, float("nan")]}, "distance of film .* is nan at record 39: give finite"),
        ({"threshold": float("inf")}, "threshold of film .* is inf: give a finite"),
        ({"distance": None}, "threshold of film .* but there is no distance: give both"),
    ],
)
def test_what_cannot_be_shown_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        player([FILM, replace(FILM, **change)])


def test_no_film_is_refused() -> None:
    with pytest.raises(ParameterError, match="films is empty: give"):
        player([])


def test_fragment_is_deterministic_and_every_player_has_its_own_id() -> None:
    fragments = [player([FILM]), player([FILM]), player([FILM], label="Another")]
    first, second, third = (re.findall(r'id="(glauber-player-\w+)"', fragment) for fragment in fragments)
    assert fragments[0] == fragments[1] and first == second != third and len(first) == 1
    assert not re.search(r'(src|href)="|url\(|@import', fragments[0])


def test_long_film_stays_small() -> None:
    rng = np.random.default_rng(0)
    rows = [[f"word{i}" for i in rng.integers(3000, size=60)]]
    for _ in range(1999):
        rows.append([*rows[-1]])
        rows[-1][rng.integers(60)] = f"word{rng.integers(3000)}"
    long = Film("long", range(2000), rows, None, rng.random(2000).tolist())
    assert len(player([long])) - len(player([random_film(2, 2)])) < 100_000


def test_film_of_the_embedded_model_reads_as_prose(tiny: glauber.MaskedLM) -> None:
    sentence = "the patient's doctors (well-known) don't run; 3.5% with cardiomyopathies and/or 1,000 others did."
    ids, _ = tiny.text.encode(sentence)
    assert any(token.startswith("##") for token in tiny.text.tokens(ids))
    one = film(tiny.text, np.array([ids, ids]), [0, 5], "prose", [0.0, 0.1], 0.64)
    assert shown_text(one, 0) == sentence and not any("##" in token for token in one.tokens[0])
    assert (one.title, one.steps, one.distance, one.threshold) == ("prose", [0, 5], [0.0, 0.1], 0.64)
    states = np.random.default_rng(2).choice(tiny.text.vocabulary, size=(60, 24))
    one = film(tiny.text, states, range(60), "random")
    for k, row in enumerate(states.tolist()):  # decoding spaces punctuation more widely, and keeps a leading ##
        assert shown_text(one, k).replace(" ", "") == tiny.text.decode(row).replace(" ", "").removeprefix("##")


def test_film_marks_what_changed_by_id(tiny: glauber.MaskedLM) -> None:
    names = tiny.text.tokenizer.get_vocab()
    word, piece, other = names["read"], names["ing"], names["##ing"]
    one = film(tiny.text, np.array([[word, piece], [word, other], [word, other]]), [0, 1, 2], "alike")
    assert [shown_text(one, k) for k in range(3)] == ["read ing", "reading", "reading"]
    assert one.changed == [[False, False], [False, True], [False, False]]


@pytest.mark.parametrize("family", ["roberta", "modernbert", "albert"])
def test_film_of_other_tokenizers_is_their_decoding(checkpoints: dict[str, Path], family: str) -> None:
    text = glauber.load_model(str(checkpoints[family]), device="cpu").text
    ids, _ = text.encode(f"{SENTENCE} Naïve – 3.5 日本?")
    assert shown_text(film(text, np.array([ids]), [0], family), 0) == text.decode(ids)


@pytest.mark.parametrize("states", [np.zeros(3, dtype=int), np.zeros((2, 3)), np.array([[-1]]), np.array([[10**6]])])
def test_film_refuses_what_is_no_array_of_ids(tiny: glauber.MaskedLM, states: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ParameterError, match=r"states h.*: give"):
        film(tiny.text, states, range(len(states)), "wrong")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is missing: install Chromium, for example with apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must neither ask for anything but itself nor report an error."""
    opened = browser.new_page(viewport={"width": 900, "height": 900})
    opened.set_default_timeout(10_000)
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if message.type in {"error", "warning"} else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: faults.append(request.url) if request.url != ADDRESS else None)
    yield opened
    opened.close()
    assert faults == []


def load(page: Page, *fragments: str, theme: str = "light", head: str = "") -> Locator:
    body = f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>Page</title>{head}'
    body += f'<link rel="icon" href="data:,"></head><body>{"".join(fragments)}</body></html>'
    page.unroute_all()
    page.route(ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(ADDRESS)
    return page.locator(".glauber-player").first


STATE = """root => {
  const tokens = [...root.querySelectorAll('.gp-text .gp-token')], get = name => root.querySelector(name);
  const age = token => (/gp-age(\\d+)/.exec(token.className) || [])[1];
  return {text: get('.gp-text').textContent, record: Number(get('.gp-slider').value),
    ages: tokens.flatMap((token, i) => age(token) ? [[i, Number(age(token))]] : []),
    strong: tokens.flatMap((token, i) => getComputedStyle(token).textDecoration.includes('underline 3px') ? [i] : []),
    value: get('.gp-slider').getAttribute('aria-valuetext'), count: get('.gp-count').textContent,
    live: get('.gp-text').getAttribute('aria-live'), button: get('.gp-play').innerText};
}"""


def check_at(root: Locator, one: Film, k: int) -> None:
    """The player is paused at record ``k`` and shows all that belongs to it and nothing else."""
    old = ages(one, k)
    assert root.evaluate(STATE) == {
        "text": shown_text(one, k),
        "record": k,
        "ages": [[i, old[i]] for i in sorted(old)],
        "strong": [i for i in sorted(old) if old[i] == 0],
        "value": f"step {one.steps[k]} of {one.steps[-1]}",
        "count": f"step {one.steps[k]:,} of {one.steps[-1]:,}",
        "live": "polite",
        "button": "Play",
    }


def slide(root: Locator, k: int) -> None:
    root.locator(".gp-slider").fill(str(k))


def wait(page: Page, condition: str) -> None:
    page.wait_for_function(f"""() => {{ const record = Number(document.querySelector('.gp-slider').value);
      const button = document.querySelector('.gp-play').innerText; return {condition}; }}""")


def test_every_record_by_slider_forwards_and_backwards(page: Page) -> None:
    root = load(page, player([FILM]))
    for k in [*range(LAST + 1), *range(LAST, -1, -1), 30, 2, 17, 16, 39, 0]:
        slide(root, k)
        check_at(root, FILM, k)


def test_token_that_looks_the_same_is_marked_where_the_film_says_so(page: Page) -> None:
    joined, changed = [[False, False], [False, True]], [[False, False], [False, True]]
    root = load(page, player([Film("alike", [0, 1], [["read", "ing"]] * 2, joined, None, changed=changed)]))
    root.locator(".gp-next").click()
    state = root.evaluate(STATE)
    assert (state["text"], state["ages"]) == ("reading", [[1, 0]])
    assert not root.locator(".gp-curve").is_visible()


def test_plays_pauses_and_stops_at_the_end(page: Page) -> None:
    root = load(page, player([FILM]))
    button = root.locator(".gp-play")
    check_at(root, FILM, 0)
    page.wait_for_timeout(400)  # it never starts by itself
    check_at(root, FILM, 0)
    button.click()
    wait(page, "record >= 2")
    assert root.evaluate(STATE)["button"] == "Pause" and root.evaluate(STATE)["live"] == "off"
    button.click()
    held = root.evaluate(STATE)["record"]
    page.wait_for_timeout(400)
    check_at(root, FILM, held)
    root.locator(".gp-speed").select_option("60")
    button.click()
    wait(page, f"record == {LAST} && button == 'Play'")
    check_at(root, FILM, LAST)
    button.click()  # from the end it starts over
    wait(page, f"record < {LAST}")
    slide(root, 5)  # and seeking pauses
    page.wait_for_timeout(200)
    check_at(root, FILM, 5)


def test_everything_is_within_reach_of_the_keyboard(page: Page) -> None:
    root = load(page, player([FILM, random_film(title="Second", seed=2)]))
    order = []
    for _ in range(7):
        page.keyboard.press("Tab")
        order.append(page.evaluate("() => document.activeElement.className || document.activeElement.tagName"))
    assert order == ["SELECT", "gp-text", "gp-slider", "gp-back", "gp-play", "gp-next", "gp-speed"]
    for focus in (".gp-text", ".gp-slider"):
        root.locator(focus).focus()
        for key, k in {"Home": 0, "ArrowRight": 1, "End": LAST, "ArrowLeft": LAST - 1}.items():
            page.keyboard.press(key)
            check_at(root, FILM, k)
    for focus in (".gp-text", ".gp-play", ".gp-slider"):  # once, not twice, where a button takes the key too
        slide(root, 0)
        root.locator(focus).focus()
        page.keyboard.press("Space")
        wait(page, "record > 0 && button == 'Pause'")
        page.keyboard.press("Space")
        check_at(root, FILM, root.evaluate(STATE)["record"])
    page.evaluate("() => document.activeElement.blur()")
    root.locator(".gp-plot").click()
    before = root.evaluate(STATE)["record"]
    page.keyboard.press("ArrowLeft")
    check_at(root, FILM, before - 1)
    slide(root, 9)
    root.locator(".gp-back").focus()
    page.keyboard.press("ArrowLeft")
    check_at(root, FILM, 8)
    page.keyboard.press("Space")  # the button's own key
    check_at(root, FILM, 7)
    root.locator(".gp-speed").focus()
    page.keyboard.press("ArrowRight")  # the list's own key
    check_at(root, FILM, 7)


def test_clicking_and_dragging_the_curve_seeks(page: Page) -> None:
    root = load(page, player([FILM]))
    box = root.locator(".gp-plot").bounding_box()
    left, right = (float(root.locator(".gp-limit").get_attribute(side) or 0) for side in ("x1", "x2"))
    assert box and FILM.distance
    xs = np.interp(FILM.steps, (FILM.steps[0], FILM.steps[-1]), (left, right)) + box["x"]
    for k in (20, 3, LAST, 0, 11):
        page.mouse.click(xs[k], box["y"] + 60)
        check_at(root, FILM, k)
        assert root.locator(".gp-value").inner_text() == f"{FILM.distance[k]:.3f}"
        assert float(root.locator("circle").get_attribute("cx") or 0) + box["x"] == pytest.approx(xs[k], abs=0.1)
    page.mouse.down()
    page.mouse.move(xs[30], box["y"] + 20, steps=4)
    page.mouse.up()
    check_at(root, FILM, 30)
    assert {"step", "threshold 0.64", "0.5"} <= set(root.locator(".gp-plot text").all_text_contents())
    assert root.locator(".gp-name").inner_text() == "semantic distance"


def test_films_are_chosen_and_keep_the_step(page: Page) -> None:
    second = random_film(60, 7, title="Second", seed=5)
    root = load(page, player([FILM, second]))
    slide(root, 20)
    root.locator(".gp-films select").select_option(label="Second")
    check_at(root, second, min(range(60), key=lambda k: abs(second.steps[k] - FILM.steps[20])))


def test_equal_players_on_one_page_are_independent(page: Page) -> None:
    load(page, *[player([FILM])] * 3)
    roots = page.locator(".glauber-player").all()
    for k, root in enumerate(roots):
        slide(root, 10 + k)
    roots[1].locator(".gp-back").click()
    for root, k in zip(roots, (10, 10, 12), strict=True):
        check_at(root, FILM, k)
    assert len({root.get_attribute("id") for root in roots}) == 3


def test_markup_in_texts_is_shown_as_it_is(page: Page, browser: Browser) -> None:
    tokens = ["</script><script>window.broken = 1</script>", "<b>", "<img src=x onerror=boom()>"]
    one = Film('<i title="t">', [0, 1000], [tokens] * 2, None, [0.0, 0.1])
    fragment = player([one, one], label='"><b>label', distance_label="<u>distance")
    root = load(page, fragment)
    assert root.locator(".gp-text").inner_text() == " ".join(tokens)
    assert root.locator(".gp-films option").first.inner_text() == '<i title="t">'
    assert root.locator(".gp-name").inner_text() == "<u>distance"
    assert root.get_attribute("aria-label") == '"><b>label'
    assert root.locator("b, i, u, img").count() == 0 and page.evaluate("() => window.broken") is None
    context = browser.new_context(java_script_enabled=False)  # the first and the last text are there all the same
    lines = load(context.new_page(), fragment).inner_text().split("\n")
    assert [one.title, f"Step 0: {' '.join(tokens)}", f"Step 1,000: {' '.join(tokens)}"] == [x for x in lines if x][:3]
    context.close()


def test_works_where_scripts_are_made_again(page: Page) -> None:
    # As in JupyterLab: innerHTML runs no script, so each is replaced by a copy; here before the output is attached.
    load(page, '<div id="out"></div>')
    insert = """fragment => {
      const host = document.createElement('div');
      host.innerHTML = fragment;
      for (const old of host.querySelectorAll('script')) {
        const made = document.createElement('script');
        for (const a of old.attributes) made.setAttribute(a.name, a.value);
        made.textContent = old.textContent;
        old.replaceWith(made);
      }
      document.getElementById('out').append(host);
    }"""
    page.evaluate(insert, player([FILM]))
    page.evaluate(insert, player([FILM]))
    first, second = page.locator(".glauber-player").all()
    slide(second, 7)
    check_at(first, FILM, 0)
    check_at(second, FILM, 7)


def test_leaves_no_globals_and_minds_no_loader(page: Page) -> None:
    head = (
        "<script>window.define = () => { throw Error('define'); }; define.amd = {}; window.require = define;</script>"
    )
    load(page, head=head)
    before = page.evaluate("() => Object.keys(window)")
    slide(load(page, player([FILM]), head=head), 3)
    assert page.evaluate("() => Object.keys(window).filter(key => !/^\\d+$/.test(key))") == before


def test_stops_when_it_is_taken_off_the_page(page: Page) -> None:
    load(page, player([FILM])).locator(".gp-play").click()
    page.evaluate("() => { window.held = document.querySelector('.glauber-player'); held.remove(); }")
    page.wait_for_function("() => held.querySelector('.gp-play span').textContent == 'Play'")
    assert page.evaluate("() => Number(held.querySelector('.gp-slider').value)") < LAST


def test_one_record_and_one_token(page: Page) -> None:
    one = Film("still", [0], [["word"]], [[False]], [0.0])
    root = load(page, player([one]))
    root.locator(".gp-play").click()
    wait(page, "button == 'Play'")
    check_at(root, one, 0)


def contrast(one: list[float], other: list[float]) -> float:
    """Ratio of two colours, red, green and blue from 0 to 255, by WCAG 2."""
    values = np.array([one, other]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    low, high = np.sort(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


COLOURS = """root => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const ground = e => { // backgrounds laid over each other
    const below = e === root ? [255, 255, 255] : ground(e.parentElement), top = parts(getComputedStyle(e).backgroundColor);
    return top.length < 4 ? top : below.map((b, i) => top[3] * top[i] + (1 - top[3]) * b);
  };
  const visible = [...root.querySelectorAll('.gp-live *')].filter(e => !e.matches('path, circle, line, input'));
  return visible.map(e => [e.getAttribute('class'), parts(getComputedStyle(e)[e.matches('text') ? 'fill' : 'color']), ground(e)]);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_contrast_in_both_themes(page: Page, theme: str) -> None:
    root = load(page, player([FILM]), theme=theme)
    assert (root.evaluate("r => getComputedStyle(r).backgroundColor") == "rgb(255, 255, 255)") == (theme == "light")
    seen = set()
    for k in range(12, 20):
        slide(root, k)
        for name, text, ground in root.evaluate(COLOURS):
            assert contrast(text, ground) >= 4.5, (name, text, ground)
            seen.add(name)
    assert {f"gp-token gp-age{age}" for age in range(9)} | {"gp-limit-name", "gp-hint", "gp-play"} <= seen


@pytest.mark.parametrize("width", [320, 360, 1200])
def test_fits_narrow_screens(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    rows = [["w" * 90, *row[1:]] for row in FILM.tokens]
    one = replace(FILM, title="a-very-long-title-without-spaces-" * 3, tokens=rows)
    for fragment in (player([one]), player([one, FILM], distance_label="a long label of the vertical axis " * 3)):
        root = load(page, fragment)
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        ends = root.locator(".gp-live *").evaluate_all("all => all.map(e => e.getBoundingClientRect().right)")
        assert max(ends) <= width - 8


def test_curve_follows_the_width_and_a_player_that_was_hidden_shows_up(page: Page) -> None:
    root = load(page, f'<div id="tab" style="display: none">{player([FILM])}</div>')
    assert root.locator(".gp-plot path").count() == 0
    page.evaluate("() => { document.getElementById('tab').style.display = ''; }")
    page.wait_for_function("() => document.querySelectorAll('.gp-plot path').length == 2")
    slide(root, 9)
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => document.querySelector('.gp-limit').getAttribute('x2') < 400")
    check_at(root, FILM, 9)
