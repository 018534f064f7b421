/* Markdown as models write it (CommonMark's blocks and emphasis, GitHub's tables, tasks and bare
   links) as nodes. No HTML is ever parsed: tags in the text are text, images are links, and a link
   leads to http, https or mailto only. However odd the text, it takes time in proportion to it. */

import { inline } from "./markdown_inline.js";

const DEEPEST = 12;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|\t|$)/;
const TASK = /^\[([ xX])\] +/;
const DASHES = /^:?-+:?$/;
const INTERRUPTS = /^ {0,3}(?:[-*+]|1[.)])[ \t]+\S/; // a paragraph: "1986. A year" does not
const UNDERLINE = /^ {0,3}(=+|-+) *$/;

/** A fragment. */
export function render(text) {
    const into = document.createDocumentFragment();
    blocks(text.replaceAll("\r\n", "\n").split("\n"), into, 0);
    return into;
}

function blocks(lines, into, depth) {
    let at = 0;
    while (at < lines.length) {
        const line = lines[at];
        if (!line.trim()) {
            at += 1;
        } else if (FENCE.test(line)) {
            at = fence(lines, at, into);
        } else if (HEADING.test(line)) {
            const [, marks, words = ""] = HEADING.exec(line);
            into.append(heading(marks.length, withoutMarks(words)));
            at += 1;
        } else if (RULE.test(line)) {
            into.append(document.createElement("hr"));
            at += 1;
        } else if (QUOTE.test(line) && depth < DEEPEST) {
            at = quote(lines, at, into, depth);
        } else if (ITEM.test(line) && depth < DEEPEST) {
            at = list(lines, at, into, depth);
        } else if (isTable(lines, at)) {
            at = table(lines, at, into);
        } else {
            at = paragraph(lines, at, into);
        }
    }
}

/** Below the page's own headings. */
function heading(level, words) {
    const made = document.createElement(`h${Math.min(6, level + 2)}`);
    made.append(inline(words));
    return made;
}

function withoutMarks(words) {
    const text = words.trim();
    let end = text.length;
    while (text[end - 1] === "#") end -= 1;
    return end === 0 || text[end - 1] === " " ? text.slice(0, end).trimEnd() : text;
}

/** Also one that is not closed yet. */
function fence(lines, at, into) {
    const [, indent, marks, info] = FENCE.exec(lines[at]);
    const close = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`);
    const found = [];
    let next = at + 1;
    while (next < lines.length && !close.test(lines[next])) {
        found.push(dedented(lines[next], indent.length));
        next += 1;
    }
    const pre = document.createElement("pre");
    const code = document.createElement("code");
    code.textContent = found.join("\n");
    const language = info.trim().split(/\s/, 1)[0];
    if (language) pre.dataset.language = language;
    pre.tabIndex = 0; // what is wider than the page is scrolled by keys, too
    pre.append(code);
    into.append(pre);
    return next + 1;
}

function quote(lines, at, into, depth) {
    const inner = [];
    let next = at;
    while (next < lines.length && (QUOTE.test(lines[next]) || isLazy(lines, next, inner))) {
        inner.push(lines[next].replace(QUOTE, ""));
        next += 1;
    }
    const made = document.createElement("blockquote");
    blocks(inner, made, depth + 1);
    into.append(made);
    return next;
}

/** Goes on with the paragraph before it, without a mark of its own. */
function isLazy(lines, at, before) {
    const last = before[before.length - 1];
    if (!last || !last.trim() || !lines[at].trim()) return false;
    return !beginsABlock(lines[at]) && !ITEM.test(lines[at]);
}

function beginsABlock(line) {
    return [FENCE, HEADING, RULE, QUOTE, INTERRUPTS].some((each) => each.test(line));
}

function list(lines, at, into, depth) {
    const first = ITEM.exec(lines[at])[2];
    const ordered = /\d/.test(first);
    const made = document.createElement(ordered ? "ol" : "ul");
    if (ordered && parseInt(first, 10) !== 1) made.start = parseInt(first, 10);
    const kind = first[first.length - 1];
    const items = [];
    let next = at;
    while (next < lines.length && goesOn(lines[next], kind)) {
        const item = [];
        next = itemOf(lines, next, item);
        items.push(item);
    }
    const loose = items.some((item, number) => isLoose(item, number === items.length - 1));
    for (const item of items) made.append(listItem(item, loose, depth));
    into.append(made);
    return next;
}

function goesOn(line, kind) {
    const found = ITEM.exec(line);
    return found !== null && found[2].endsWith(kind) && !RULE.test(line);
}

/** Its lines, without the mark and its indentation. */
function itemOf(lines, at, item) {
    const [mark, indent, bullet, blanks] = ITEM.exec(lines[at]);
    const width = blanks ? mark.length : indent.length + bullet.length + 1;
    item.push(lines[at].slice(mark.length));
    let next = at + 1;
    while (next < lines.length) {
        const line = lines[next];
        const inside = indentOf(line) >= width;
        if (!line.trim()) {
            if (!belongs(lines, next, width)) break;
            item.push("");
        } else if (inside) {
            item.push(dedented(line, width));
        } else if (isLazy(lines, next, item)) {
            item.push(line.trimStart());
        } else {
            break;
        }
        next += 1;
    }
    while (next < lines.length && !lines[next].trim() && ITEM.test(lines[next + 1] || "")) {
        item.push("");
        next += 1;
    }
    return next;
}

/** Whether what stands after the blank line is of the same item. */
function belongs(lines, at, width) {
    const after = lines[at + 1];
    return after !== undefined && after.trim() !== "" && indentOf(after) >= width;
}

function isLoose(item, last) {
    const end = last ? item.join("\n").trimEnd().split("\n") : item;
    return end.includes("");
}

function listItem(lines, loose, depth) {
    const made = document.createElement("li");
    const task = TASK.exec(lines[0]);
    if (task) lines = [lines[0].slice(task[0].length), ...lines.slice(1)];
    blocks(lines, made, depth + 1);
    if (!loose) {
        for (const each of [...made.children]) {
            if (each.tagName === "P") each.replaceWith(...each.childNodes, ...(each.nextSibling ? ["\n"] : []));
        }
    }
    if (task) {
        const box = document.createElement("input");
        box.type = "checkbox";
        box.disabled = true;
        box.checked = task[1] !== " ";
        made.prepend(box, " ");
    }
    return made;
}

function isTable(lines, at) {
    const under = lines[at + 1];
    if (!lines[at].includes("|") || under === undefined || !under.includes("-")) return false;
    const dashes = cells(under);
    return dashes.every((each) => DASHES.test(each)) && cells(lines[at]).length === dashes.length;
}

function cells(line) {
    const found = line.trim().replace(/^\|/, "").split(/(?<!\\)\|/);
    if (found.length > 1 && !found[found.length - 1].trim()) found.pop();
    return found.map((each) => each.trim().replaceAll("\\|", "|"));
}

function table(lines, at, into) {
    const sides = cells(lines[at + 1]).map((each) => {
        if (each.endsWith(":")) return each.startsWith(":") ? "center" : "right";
        return "";
    });
    const made = document.createElement("table");
    made.createTHead().append(row(cells(lines[at]), sides, "th"));
    const body = made.createTBody();
    let next = at + 2;
    while (next < lines.length && lines[next].includes("|") && !beginsABlock(lines[next])) {
        body.append(row(cells(lines[next]), sides, "td"));
        next += 1;
    }
    const scroll = document.createElement("div");
    scroll.className = "corral-scroll";
    scroll.append(made);
    into.append(scroll);
    return next;
}

function row(found, sides, tag) {
    const made = document.createElement("tr");
    for (const [number, side] of sides.entries()) {
        const cell = document.createElement(tag);
        if (tag === "th") cell.scope = "col";
        if (side) cell.style.textAlign = side;
        cell.append(inline(found[number] || ""));
        made.append(cell);
    }
    return made;
}

function paragraph(lines, at, into) {
    const found = [lines[at]];
    let next = at + 1;
    while (next < lines.length && lines[next].trim() && !beginsABlock(lines[next])) {
        if (UNDERLINE.test(lines[next])) break;
        found.push(lines[next]);
        next += 1;
    }
    const words = found.map((line) => line.trimStart()).join("\n").trimEnd();
    const under = next < lines.length && UNDERLINE.exec(lines[next]);
    if (under) {
        into.append(heading(under[1][0] === "=" ? 1 : 2, words));
        return next + 1;
    }
    const made = document.createElement("p");
    made.append(inline(words));
    into.append(made);
    return next;
}

/** In columns: a tab leads to the next one that four divides. */
function indentOf(line) {
    let columns = 0;
    for (const sign of line) {
        if (sign === " ") columns += 1;
        else if (sign === "\t") columns += 4 - (columns % 4);
        else break;
    }
    return columns;
}

/** Without so many columns of its indentation. */
function dedented(line, width) {
    let at = 0;
    let columns = 0;
    while (columns < width && (line[at] === " " || line[at] === "\t")) {
        columns += line[at] === " " ? 1 : 4 - (columns % 4);
        at += 1;
    }
    return " ".repeat(Math.max(0, columns - width)) + line.slice(at);
}
