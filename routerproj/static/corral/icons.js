/* Icons are words in a font of pictures. Beside a text they say nothing of their own, and are not
   read aloud before it; where there is no text, they are all that is said. */

const ICON = ".material-symbols-outlined";

function textOf(element) {
    const copy = element.cloneNode(true);
    for (const icon of copy.querySelectorAll(ICON)) icon.remove();
    return copy.textContent.trim();
}

function silence(within) {
    for (const icon of within.querySelectorAll(`${ICON}:not([aria-hidden])`)) {
        const control = icon.closest("a, button, [role=button]");
        if (!control || control.ariaLabel || control.title || textOf(control)) icon.ariaHidden = "true";
    }
}

document.addEventListener("DOMContentLoaded", () => {
    silence(document);
    new MutationObserver((changes) => {
        for (const { addedNodes } of changes) {
            for (const node of addedNodes) if (node instanceof Element) silence(node);
        }
    }).observe(document.body, { childList: true, subtree: true });
});
