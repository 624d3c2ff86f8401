/**
 * Stays connected to a room. After a lost socket it reconnects with the last received number, and sends each unconfirmed message again
 * under its key: one at a time and below the room's rate, because a faster client is closed with 4429.
 *
 * @param {string} address wss://…/rooms/desk/front
 * @param {() => Promise<string>} ticketOf asks your own back end for a ticket
 * @param {(message: { sequence: number, from: string | null, at: number, body: unknown }) => void} heard
 */
export function enterRoom(address, ticketOf, heard) {
  const unsaid = new Map();
  let since;
  let waitMs = 1000;
  let socket;
  let hasLeft = false;

  function hear({ key, ...message }) {
    since = message.sequence;
    unsaid.delete(key);
    heard(message);
  }

  async function come() {
    if (hasLeft) return;
    const ticket = await ticketOf().catch(() => undefined);
    if (ticket === undefined) return comeLater();
    const own = new WebSocket(since === undefined ? address : `${address}?since=${since}`, ["millrace.room", `ticket.${ticket}`]);
    own.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "message") hear(frame);
      if (frame.type === "refused") unsaid.delete(frame.key);
      if (frame.type !== "welcome") return;
      waitMs = 1000;
      socket = own;
      for (const message of frame.messages) hear(message);
    };
    own.onclose = ({ code }) => {
      socket = undefined;
      // Dismissed, or a frame that the room always refuses: do not reconnect.
      if (![1003, 1007, 1009, 4403].includes(code)) comeLater();
    };
  }

  function comeLater() {
    setTimeout(() => void come(), waitMs * (0.5 + Math.random()));
    waitMs = Math.min(waitMs * 2, 30_000);
  }

  const clock = setInterval(() => {
    const next = socket && [...unsaid.values()].find((one) => one.socket !== socket);
    if (!next) return;
    next.socket = socket;
    socket.send(JSON.stringify({ type: "send", body: next.body, key: next.key }));
  }, 250);

  void come();
  return {
    say(body) {
      const key = crypto.randomUUID();
      unsaid.set(key, { body, key });
    },
    leave() {
      hasLeft = true;
      clearInterval(clock);
      socket?.close();
    },
  };
}
