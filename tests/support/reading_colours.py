"""Whether what stands on a page can be read: the contrast of its texts, as WCAG 2 counts it."""

from __future__ import annotations

from playwright.sync_api import Page

LEAST = 4.5

_LOOK = """
([selector, least]) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const brush = canvas.getContext("2d", { willReadFrequently: true });
    const painted = (colours) => {
        brush.fillStyle = "#fff";
        brush.fillRect(0, 0, 1, 1);
        for (const colour of colours) { brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1); }
        return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((each) => {
            const part = each / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const colours = [];
        for (let each = element; each; each = each.parentElement) {
            colours.unshift(getComputedStyle(each).backgroundColor);
        }
        return colours;
    };
    const poor = [];
    const texts = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        const text = texts.currentNode.nodeValue.trim();
        if (!text || !element.checkVisibility({ visibilityProperty: true })) continue;
        if (element.closest("script, style, noscript, datalist")) continue;
        const under = behind(element);
        const ink = light(painted([...under, getComputedStyle(element).color]));
        const paper = light(painted(under));
        const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (ratio < least) poor.push(`${ratio.toFixed(2)}: ${text.slice(0, 60)}`);
    }
    return poor;
}
"""


def poor_contrasts(page: Page, selector: str) -> list[str]:
    """Texts within what `selector` names that are paler against what is behind them than LEAST, by
    the colours alone: a picture or a gradient behind is not seen."""
    found: list[str] = page.evaluate(_LOOK, [selector, LEAST])
    return found
