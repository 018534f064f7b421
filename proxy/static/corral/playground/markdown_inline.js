/* The inside of a paragraph: code, emphasis, links. Emphasis is matched as CommonMark does, by a
   stack of marks. */

const ESCAPED = /[!-/:-@[-`{-~]/;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const ADDRESS = /^(?:https?:\/\/|mailto:)[^\s<>]+$/i;
const BARE = /https?:\/\/[^\s<>"]+/y;
const AFTER = /[.,:;!?'"*_~)\]]+$/;
const LONGEST_ADDRESS = 2000;

/** A fragment. */
export function inline(text) {
    const parser = new Inline(text);
    parser.run();
    return parser.made();
}

class Inline {
    constructor(text) {
        this.text = text;
        this.at = 0;
        this.parts = []; // nodes, and marks: { mark, count, opens, closes }
        this.words = "";
        this.brackets = []; // places in parts at which a link may begin
        this.noTicks = new Set(); // lengths of back-ticks after which none of the same length comes
    }

    run() {
        while (this.at < this.text.length) {
            const sign = this.text[this.at];
            if (sign === "\\") this.escape();
            else if (sign === "`") this.code();
            else if (sign === "*" || sign === "_" || sign === "~") this.mark(sign);
            else if (sign === "[" || (sign === "!" && this.text[this.at + 1] === "[")) this.open();
            else if (sign === "]") this.close();
            else if (sign === "<") this.angle();
            else if (sign === "h" && !/[\w]/.test(this.text[this.at - 1] || "")) this.bare();
            else if (sign === "\n") this.lineEnd();
            else this.take(1);
        }
        this.flush();
    }

    made() {
        const into = document.createDocumentFragment();
        into.append(...emphasised(this.parts));
        into.normalize();
        return into;
    }

    take(count) {
        this.words += this.text.slice(this.at, this.at + count);
        this.at += count;
    }

    flush() {
        if (this.words) this.parts.push(document.createTextNode(this.words));
        this.words = "";
    }

    push(part) {
        this.flush();
        this.parts.push(part);
    }

    escape() {
        const next = this.text[this.at + 1];
        if (next === "\n") {
            this.push(document.createElement("br"));
            this.at += 2;
        } else if (next !== undefined && ESCAPED.test(next)) {
            this.words += next;
            this.at += 2;
        } else {
            this.take(1);
        }
    }

    lineEnd() {
        if (this.words.endsWith("  ")) {
            this.words = this.words.trimEnd();
            this.push(document.createElement("br"));
        } else {
            this.words += "\n";
        }
        this.at += 1;
    }

    code() {
        const count = run(this.text, this.at);
        const begin = this.at + count;
        const end = this.noTicks.has(count) ? -1 : closing(this.text, begin, count);
        if (end < 0) {
            this.noTicks.add(count);
            this.take(count);
            return;
        }
        let inner = this.text.slice(begin, end).replaceAll("\n", " ");
        if (/^ .* $/s.test(inner) && inner.trim()) inner = inner.slice(1, -1);
        const made = document.createElement("code");
        made.textContent = inner;
        this.push(made);
        this.at = end + count;
    }

    mark(sign) {
        const count = run(this.text, this.at);
        const before = this.text[this.at - 1] || " ";
        const after = this.text[this.at + count] || " ";
        const left = flanks(after, before);
        const right = flanks(before, after);
        const inWord = sign === "_";
        this.push({
            mark: sign,
            count,
            length: count,
            opens: left && (!inWord || !right || PUNCTUATION.test(before)),
            closes: right && (!inWord || !left || PUNCTUATION.test(after)),
        });
        this.at += count;
    }

    open() {
        const image = this.text[this.at] === "!";
        this.flush();
        this.brackets.push({ part: this.parts.length, image });
        this.parts.push(document.createTextNode(image ? "![" : "["));
        this.at += image ? 2 : 1;
    }

    close() {
        const opened = this.brackets.pop();
        const target = opened && targetAt(this.text, this.at + 1);
        if (!target) {
            this.take(1);
            return;
        }
        this.flush();
        const inner = emphasised(this.parts.splice(opened.part).slice(1));
        this.parts.push(...linked(target.address, inner));
        if (!opened.image) this.brackets = this.brackets.filter((each) => each.image); // none in another
        this.at = target.end;
    }

    angle() {
        const near = this.text.slice(this.at + 1, this.at + LONGEST_ADDRESS);
        const address = near.slice(0, Math.max(0, near.indexOf(">")));
        if (!ADDRESS.test(address)) {
            this.take(1);
            return;
        }
        this.flush();
        this.parts.push(...linked(address, [document.createTextNode(address)]));
        this.at += address.length + 2;
    }

    bare() {
        BARE.lastIndex = this.at;
        const found = BARE.exec(this.text);
        if (!found || found[0].length > LONGEST_ADDRESS) {
            this.take(1);
            return;
        }
        const address = withoutEnd(found[0]);
        this.flush();
        this.parts.push(...linked(address, [document.createTextNode(address)]));
        this.at += address.length;
    }
}

/** How often the sign at that place stands there. */
function run(text, at) {
    let end = at + 1;
    while (text[end] === text[at]) end += 1;
    return end - at;
}

/** Where as many back-ticks stand again; below 0 for nowhere. */
function closing(text, from, count) {
    let at = text.indexOf("`", from);
    while (at >= 0) {
        const found = run(text, at);
        if (found === count) return at;
        at = text.indexOf("`", at + found);
    }
    return -1;
}

function flanks(inner, outer) {
    if (/\s/.test(inner)) return false;
    return !PUNCTUATION.test(inner) || /\s/.test(outer) || PUNCTUATION.test(outer);
}

/** What stands in round brackets after a link's text: its address and where they end. */
function targetAt(text, at) {
    if (text[at] !== "(") return null;
    let depth = 0;
    for (let end = at; end < text.length && end < at + LONGEST_ADDRESS; end += 1) {
        const sign = text[end];
        if (sign === "\n") return null;
        if (sign === "\\") end += 1;
        else if (sign === "(") depth += 1;
        else if (sign === ")" && (depth -= 1) === 0) {
            const inner = text.slice(at + 1, end).trim();
            const [, address] = /^<?(\S*?)>?(?:\s+["'(].*)?$/s.exec(inner) || [null, ""];
            return { address, end: end + 1 };
        }
    }
    return null;
}

/** A link, or what it would have held where it leads nowhere that is let through. */
function linked(address, inner) {
    if (!ADDRESS.test(address)) return inner;
    const link = document.createElement("a");
    link.href = address;
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    link.append(...inner);
    return [link];
}

/** A full stop after an address is not of it; a bracket is if it opens there. */
function withoutEnd(address) {
    let found = address.replace(AFTER, "");
    const rest = address.slice(found.length);
    if (rest.startsWith(")") && found.split("(").length > found.split(")").length) found += ")";
    return found;
}

/** Nodes, with the marks among the parts made to emphasis, or to text. */
function emphasised(parts) {
    const done = []; // of nodes and of marks that may open
    const bottoms = {}; // by kind of closer: where no opener is to be looked for below
    for (const part of parts) {
        if (part instanceof Node) {
            done.push(part);
            continue;
        }
        if (part.closes) closeWith(part, done, bottoms);
        if (part.count > 0) done.push(part);
    }
    return done.map((part) => (part instanceof Node ? part : document.createTextNode(part.mark.repeat(part.count))));
}

function closeWith(closer, done, bottoms) {
    const kind = `${closer.mark}${closer.opens}${closer.length % 3}`;
    while (closer.count > 0) {
        const at = openerOf(closer, done, bottoms[kind] || 0);
        if (at < 0) {
            bottoms[kind] = done.length;
            return;
        }
        const opener = done[at];
        const used = closer.mark === "~" ? closer.count : Math.min(2, opener.count, closer.count);
        const made = document.createElement(closer.mark === "~" ? "del" : used === 2 ? "strong" : "em");
        const inner = done.splice(at + 1);
        made.append(...inner.map((part) => (part instanceof Node ? part : part.mark.repeat(part.count))));
        opener.count -= used;
        closer.count -= used;
        if (opener.count === 0) done.pop();
        done.push(made);
        for (const each of Object.keys(bottoms)) bottoms[each] = Math.min(bottoms[each], done.length);
    }
}

function openerOf(closer, done, bottom) {
    for (let at = done.length - 1; at >= bottom; at -= 1) {
        const part = done[at];
        if (part instanceof Node || !part.opens || part.mark !== closer.mark) continue;
        if (closer.mark === "~") {
            if (part.count === closer.count && closer.count <= 2) return at;
            continue;
        }
        const both = part.closes || closer.opens;
        const sum = part.length + closer.length;
        if (both && sum % 3 === 0 && (part.length % 3 || closer.length % 3)) continue;
        return at;
    }
    return -1;
}
