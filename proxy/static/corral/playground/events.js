/* The events of an answer that is streamed (text/event-stream), as they come. */

/** Yields the `data` of each. */
export async function* events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let data = [];
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
            rest = lines.pop();
            for (const line of lines) {
                if (line.startsWith("data:")) {
                    data.push(line.slice(line[5] === " " ? 6 : 5));
                } else if (!line && data.length) {
                    yield data.join("\n");
                    data = [];
                }
            }
        }
    } finally {
        await reader.cancel().catch(() => undefined); // of one that was stopped it throws once more
    }
}
