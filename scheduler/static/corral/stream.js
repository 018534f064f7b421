/* WebSockets that connect again by themselves when they were lost. */

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/* `path()` is asked at each try. `opened()` also after each loss: what was missed is then to be asked
   for. `heard(message)` for each message, `lost()` whenever there is no connection. What is returned
   ends it: then nothing is told any more. */
export function keepOpen(path, { opened = () => {}, heard, lost }) {
    let wait = FIRST_WAIT_MS;
    let timer = 0;
    let ended = false;
    let socket = null;

    function connect() {
        const scheme = location.protocol === "https:" ? "wss" : "ws";
        socket = new WebSocket(`${scheme}://${location.host}${path()}`);
        socket.addEventListener("open", () => {
            if (!ended) opened();
        });
        socket.addEventListener("message", (message) => {
            if (ended) return;
            wait = FIRST_WAIT_MS;
            heard(JSON.parse(message.data));
        });
        socket.addEventListener("close", () => {
            if (ended) return;
            lost();
            timer = setTimeout(connect, wait);
            wait = Math.min(2 * wait, LONGEST_WAIT_MS);
        });
    }

    connect();
    return {
        end() {
            ended = true;
            clearTimeout(timer);
            socket.close();
        },
    };
}

/* Hears what happens to models: `heard(event)` for each event. */
export function follow({ opened, heard, lost }) {
    let last = "";
    return keepOpen(() => `/models/ws?${new URLSearchParams({ activity: "1", last_event_id: last })}`, {
        opened,
        heard(event) {
            last = event.id || last;
            heard(event);
        },
        lost,
    });
}
