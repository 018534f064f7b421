/* Makes a part of the page like a fresh copy of it, and leaves alone what is the same already: what
   has the focus keeps it, and nothing jumps. */

export function morph(old, fresh) {
    const kept = new Set([...fresh.children].map(keyOf));
    const keyed = new Map();
    for (const child of [...old.children]) {
        const key = keyOf(child);
        if (key && !kept.has(key)) child.remove(); // first: else what stands behind it would move
        else if (key) keyed.set(key, child);
    }
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
        const key = keyOf(next);
        const same = key ? keyed.get(key) : alike(at, next);
        if (!same || same.nodeName !== next.nodeName) {
            old.insertBefore(next, at);
            continue;
        }
        if (same === at) at = at.nextSibling;
        else old.insertBefore(same, at);
        if (key) keyed.delete(key);
        become(same, next);
    }
    while (at) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
    }
}

/* White space between elements: what is laid out by the style sheet needs none. */
export function withoutBlanks(tree) {
    const texts = document.createTreeWalker(tree, NodeFilter.SHOW_TEXT);
    const blanks = [];
    while (texts.nextNode()) if (!texts.currentNode.nodeValue.trim()) blanks.push(texts.currentNode);
    for (const blank of blanks) blank.remove();
    return tree;
}

function keyOf(node) {
    return node.dataset && node.dataset.key;
}

/* Without keys the place counts. */
function alike(node, next) {
    const usable = node && node.nodeName === next.nodeName && !keyOf(node);
    return usable ? node : null;
}

function become(node, next) {
    if (node.isEqualNode(next)) return;
    if (node.nodeType !== Node.ELEMENT_NODE) {
        node.nodeValue = next.nodeValue;
        return;
    }
    if ("keep" in node.dataset) return;
    for (const { name } of [...node.attributes]) {
        if (!next.hasAttribute(name)) node.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
        if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    morph(node, next);
}
