/* One model's side of the page: its conversation, what it is doing, and its figures. */

import { events } from "./events.js";
import { requestOf } from "./request.js";
import { Answer, element, personsTurn, toolsTurn } from "./turns.js";

const LOOK_MS = 1000;

export class Side {
    /** `node` is the side's section; `page` has `words`, `config`, `token`, and is told of changes
        by `page.changed()`. */
    constructor(node, page) {
        this.node = node;
        this.turns = [];
        this.busy = false;
        this.last = null; // the request that was sent last
        this._page = page;
        this._list = node.querySelector("[data-turns]");
        this._status = node.querySelector("[data-status]");
        this._fault = node.querySelector("[data-fault]");
        this._figures = node.querySelector("[data-figures]");
        this._again = node.querySelector("[data-again]");
        this._results = node.querySelector("[data-results]");
        this._again.addEventListener("click", () => this._retry());
        this._results.addEventListener("click", () => this._sendResults());
    }

    clear() {
        this.stop();
        this.turns = [];
        this.last = null;
        this._list.replaceChildren();
        this._figures.replaceChildren();
        this._open = null;
        this._say("");
        this._showFault("");
        this._results.hidden = true;
    }

    async ask(turn, model, settings) {
        this._leaveUnanswered();
        this._add(turn, personsTurn(turn, this._page.words));
        await this._send(model, settings);
    }

    hasPictures() {
        return this.turns.some(({ content }) => Array.isArray(content) && content.some((part) => part.type === "image_url"));
    }

    /** The conversation of another side, for one that is compared from here on. */
    adopt(other) {
        this.turns = [...other.turns];
        this._list.replaceChildren(...[...other._list.children].map((each) => each.cloneNode(true)));
    }

    stop() {
        this._stopping?.abort();
    }

    /** What would be sent now. */
    request(model, settings) {
        return requestOf(model, this.turns, settings);
    }

    // Results of tools ---------------------------------------------------------------------------

    async _sendResults() {
        const { model, settings } = this._sent;
        this.takeResults();
        await this._send(model, settings);
    }

    /** What was typed in for the calls that are open becomes turns; nothing was typed: empty ones. */
    takeResults() {
        const open = this._open;
        this._open = null;
        this._results.hidden = true;
        if (!open) return;
        const typed = new Map([...open.node.querySelectorAll("[data-call]")].map((each) => [each.dataset.call, each]));
        for (const call of open.calls) {
            const field = typed.get(call.id);
            field.readOnly = true;
            const turn = { role: "tool", tool_call_id: call.id, content: field.value };
            this._add(turn, toolsTurn(turn, call.function.name, this._page.words));
        }
    }

    // A request ----------------------------------------------------------------------------------

    _add(turn, node) {
        this.turns.push(turn);
        this._list.append(node);
        this._scroll(true);
    }

    /** A message to which nothing came is not sent again with the next one: many models take turns
        in strict order. */
    _leaveUnanswered() {
        this._broken?.remove();
        this._broken = null;
        if (this.turns.at(-1)?.role !== "user") return;
        this.turns.pop();
        this._list.lastElementChild.classList.add("unanswered");
        this._list.lastElementChild.append(element("p", "corral-subtle", this._page.words.unanswered));
    }

    async _retry() {
        const { model, settings } = this._sent;
        await this._send(model, settings);
    }

    async _send(model, settings) {
        this._sent = { model, settings };
        this._showFault("");
        this._figures.replaceChildren();
        const answer = new Answer(model, this._page.words);
        const stopping = (this._stopping = new AbortController());
        this.busy = true;
        this._page.changed();
        this.last = requestOf(model, this.turns, settings);
        this._broken?.remove();
        let whole = true;
        try {
            await this._carry(answer, stopping.signal);
        } catch (problem) {
            whole = stopping.signal.aborted; // as far as it was wanted
            if (whole) this._say(this._page.words.stopped);
            else this._fail(problem);
        } finally {
            this.busy = false;
            this._keep(answer, whole);
            this._page.changed();
        }
    }

    /** What broke off is shown until the next request, and is no turn of the conversation. */
    _keep(answer, whole) {
        answer.end();
        const turn = answer.turn();
        this._broken = whole ? null : answer.node;
        if (turn && whole) {
            this.turns.push(turn);
            if (answer.calls.length) {
                this._open = answer;
                this._results.hidden = false;
            }
        } else if (!turn && !answer.reasoning) {
            answer.node.remove();
        }
        this._scroll();
    }

    async _carry(answer, signal) {
        const page = this._page;
        const id = `play-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
        const began = performance.now();
        this._say(page.words.sent);
        const looking = setInterval(() => this._look(id, signal), LOOK_MS);
        let response;
        try {
            response = await fetch(`${page.carried}/chat/completions`, {
                method: "POST",
                headers: { "Content-Type": "application/json", "X-CSRFToken": page.token, "X-Request-Id": id },
                body: JSON.stringify(this.last),
                signal,
            });
        } finally {
            clearInterval(looking);
        }
        if (!response.ok) throw new Refusal(await refusalOf(response), response.status);
        this._say(page.words.answering);
        this._list.append(answer.node);
        const times = { began, ...waits(response), first: 0, last: 0 };
        await this._read(response, answer, times);
        this._say("");
    }

    async _read(response, answer, times) {
        const seen = { whole: false, usage: null, timings: null, finish: "" };
        for await (const data of events(response.body)) {
            if (data === "[DONE]") {
                seen.whole = true;
                break;
            }
            const chunk = JSON.parse(data);
            if (chunk.error) throw new Refusal(chunk.error.message || String(chunk.error), chunk.error.code);
            seen.usage = chunk.usage || seen.usage;
            seen.timings = chunk.timings || seen.timings;
            const choice = chunk.choices?.[0];
            seen.finish = choice?.finish_reason || seen.finish;
            if (choice?.delta && answer.add(choice.delta)) {
                times.last = performance.now();
                times.first ||= times.last;
                this._scroll();
            }
        }
        if (!seen.whole) throw new Refusal(this._page.words.cut, 0);
        this._show(seen, times);
    }

    // What is said -------------------------------------------------------------------------------

    /** Where the request stands while nothing has come of it. */
    async _look(id, signal) {
        const address = this._page.config.waiting.replace("ID", id);
        try {
            const answer = await fetch(address, { signal });
            if (answer.ok && !answer.redirected && this.busy) this._say((await answer.json()).told || this._page.words.sent);
        } catch (problem) {
            if (!(problem instanceof TypeError) && problem.name !== "AbortError") throw problem;
            // The network is away, or it was stopped: the request itself says so.
        }
    }

    _show(seen, times) {
        const words = this._page.words;
        const tokens = seen.usage?.completion_tokens;
        const speed = seen.timings?.predicted_per_second || perSecond(tokens, times);
        const figures = [
            [words.firstToken, seconds(times.first && times.first - times.began)],
            [words.inQueue, seconds(times.queue)],
            [words.forLoad, seconds(times.load)],
            [words.speed, speed ? `${speed.toFixed(1)}` : "–"],
            [words.read, figure(seen.usage?.prompt_tokens, seen.usage?.prompt_tokens_details?.cached_tokens, words)],
            [words.written, tokens ?? "–"],
            [words.ended, words.ends[seen.finish] || seen.finish || "–"],
        ];
        for (const [name, value] of figures) {
            const pair = element("div");
            pair.append(element("dt", "", name), element("dd", "", String(value)));
            this._figures.append(pair);
        }
    }

    _fail(problem) {
        if (problem instanceof Refusal) {
            this._showFault(problem.message, problem.status === 401);
        } else if (problem instanceof TypeError || problem instanceof SyntaxError) {
            console.error(problem); // the network, or something between that is no gateway
            this._showFault(this._page.words.away);
        } else {
            throw problem;
        }
        this._say("");
    }

    _showFault(text, ended = false) {
        this._fault.replaceChildren(...(text ? [text] : []));
        if (ended) {
            const link = element("a", "", this._page.words.logIn);
            link.href = this._page.config.login;
            this._fault.append(" ", link);
        }
        this._fault.hidden = this._again.hidden = !text;
    }

    _say(text) {
        if (this._status.textContent !== text) this._status.textContent = text;
    }

    /** Whoever reads further up is left there. */
    _scroll(always = false) {
        const list = this._list;
        if (always || list.scrollHeight - list.scrollTop - list.clientHeight < 120) list.scrollTop = list.scrollHeight;
    }
}

/** What the gateway says, which tells what to do. */
class Refusal extends Error {
    constructor(message, status) {
        super(message);
        this.status = status;
    }
}

async function refusalOf(response) {
    const text = await response.text();
    try {
        return JSON.parse(text).error.message;
    } catch (problem) {
        if (!(problem instanceof SyntaxError || problem instanceof TypeError)) throw problem;
        return `${response.status} ${response.statusText}`; // of a proxy between
    }
}

/** In milliseconds, from Server-Timing. */
function waits(response) {
    const told = response.headers.get("server-timing") || "";
    const of = (name) => Number(new RegExp(`${name};dur=([0-9.]+)`).exec(told)?.[1] || 0);
    return { queue: of("queue"), load: of("load") };
}

function perSecond(tokens, times) {
    const took = (times.last - times.first) / 1000;
    return tokens > 1 && took > 0 ? (tokens - 1) / took : 0;
}

function seconds(milliseconds) {
    return milliseconds ? `${(milliseconds / 1000).toFixed(2)} s` : "–";
}

function figure(count, cached, words) {
    if (count === undefined) return "–";
    return cached ? `${count} (${words.cached.replace("{count}", cached)})` : String(count);
}
