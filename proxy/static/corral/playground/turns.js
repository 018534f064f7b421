/* One turn of a conversation on the page: what a person wrote, or what a model answers. */

import { render } from "./markdown.js";

const LEAST_MS = 60;
const BREATH = 4; // a long answer is drawn anew less often: a fifth of the time at most goes into it

/** A person's, as it was typed. */
export function personsTurn(turn, words) {
    const made = article("person", words.you);
    const parts = typeof turn.content === "string" ? [{ type: "text", text: turn.content }] : turn.content;
    for (const part of parts) {
        if (part.type === "text") {
            if (part.text) made.append(element("div", "pg-typed", part.text));
        } else {
            const picture = document.createElement("img");
            picture.src = part.image_url.url;
            picture.alt = words.picture;
            made.append(picture);
        }
    }
    return made;
}

/** What a tool gave back, as it was typed in. */
export function toolsTurn(turn, name, words) {
    const made = article("tool", words.resultOf.replace("{name}", name));
    made.append(element("pre", "pg-typed", turn.content));
    return made;
}

/** A model's, while it comes and when it is whole. */
export class Answer {
    constructor(model, words) {
        this.content = "";
        this.reasoning = "";
        this.calls = [];
        this.node = article("model", model);
        this._words = words;
        this._thought = element("details", "pg-thought");
        this._thought.append(element("summary", "", words.reasoning));
        this._thoughtText = element("div", "pg-typed");
        this._thought.append(this._thoughtText);
        this._thought.hidden = true;
        this._text = element("div", "pg-text");
        this._calls = element("div", "pg-calls");
        this.node.append(this._thought, this._text, this._calls);
        this._timer = 0;
        this._drawn = { content: "", reasoning: "" };
        this._wait = LEAST_MS;
    }

    /** A `delta` of the stream; whether it held anything that a model has written. */
    add(delta) {
        const reasoning = delta.reasoning_content || delta.reasoning || "";
        this.content += delta.content || "";
        this.reasoning += reasoning;
        for (const call of delta.tool_calls || []) this._addCall(call);
        if (!this._timer) this._timer = setTimeout(() => this._draw(), this._wait);
        return Boolean(delta.content || reasoning || delta.tool_calls);
    }

    /** Nothing more comes. */
    end() {
        clearTimeout(this._timer);
        this._draw();
        this.calls = this.calls.filter(Boolean);
        for (const [number, call] of this.calls.entries()) call.id ||= `call_${number}`; // not every engine names them
        for (const call of this.calls) this._calls.append(callShown(call, this._words));
    }

    /** As the next request has it; null if nothing was written. */
    turn() {
        if (!this.content && !this.calls.length) return null;
        const turn = { role: "assistant", content: this.content };
        if (this.calls.length) turn.tool_calls = this.calls;
        return turn;
    }

    _addCall(piece) {
        const number = piece.index ?? this.calls.length;
        const call = (this.calls[number] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
        call.id ||= piece.id || "";
        call.function.name += piece.function?.name || "";
        call.function.arguments += piece.function?.arguments || "";
    }

    _draw() {
        this._timer = 0;
        const began = performance.now();
        if (this._drawn.content !== this.content) {
            this._text.replaceChildren(render(this.content));
            this._drawn.content = this.content;
        }
        if (this._drawn.reasoning !== this.reasoning) {
            this._thought.hidden = false;
            this._thoughtText.textContent = this._drawn.reasoning = this.reasoning;
        }
        this._wait = Math.max(LEAST_MS, BREATH * (performance.now() - began));
    }
}

/** A call, and where its result is typed in. */
function callShown(call, words) {
    const made = element("div", "pg-call");
    made.append(element("h4", "", words.calls.replace("{name}", call.function.name)));
    made.append(element("pre", "corral-told", indented(call.function.arguments)));
    const label = element("label", "", words.resultOf.replace("{name}", call.function.name));
    const field = document.createElement("textarea");
    field.className = "corral-search";
    field.rows = 2;
    field.dataset.call = call.id;
    label.append(field);
    made.append(label);
    return made;
}

/** What a model wrote as arguments is meant to be JSON, and need not be. */
function indented(text) {
    try {
        return JSON.stringify(JSON.parse(text), null, 2);
    } catch (problem) {
        if (!(problem instanceof SyntaxError)) throw problem;
        return text;
    }
}

function article(kind, name) {
    const made = element("li", `pg-turn ${kind}`);
    made.append(element("h3", "pg-who", name));
    return made;
}

export function element(tag, look = "", text = "") {
    const made = document.createElement(tag);
    if (look) made.className = look;
    if (text) made.textContent = text;
    return made;
}
