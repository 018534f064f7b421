/* Hears by a WebSocket what happens to models, and connects again by itself when it was lost. */

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/* `opened()` also after each loss: what was missed is then to be asked for. `heard(event)` for each
   event, `lost()` whenever there is no connection. What is returned ends it. */
export function follow({ opened, heard, lost }) {
    let last = "";
    let wait = FIRST_WAIT_MS;
    let ended = false;
    let socket = null;

    function connect() {
        const scheme = location.protocol === "https:" ? "wss" : "ws";
        const query = new URLSearchParams({ activity: "1", last_event_id: last });
        socket = new WebSocket(`${scheme}://${location.host}/models/ws?${query}`);
        socket.addEventListener("open", () => {
            wait = FIRST_WAIT_MS;
            opened();
        });
        socket.addEventListener("message", (message) => {
            const event = JSON.parse(message.data);
            last = event.id || last;
            heard(event);
        });
        socket.addEventListener("close", () => {
            if (ended) return;
            lost();
            setTimeout(connect, wait);
            wait = Math.min(2 * wait, LONGEST_WAIT_MS);
        });
    }

    connect();
    return {
        end() {
            ended = true;
            socket.close();
        },
    };
}
