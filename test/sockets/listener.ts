import { WebSocket } from "ws";
import type { RoomFrame } from "../../packages/millrace/src/rooms/history.ts";
import { roomTicket } from "../../packages/millrace/src/rooms/ticket.ts";
import { KEY } from "./runtime.ts";

/** A client as described in docs/rooms.md: it stores the number of the last message, and sends it when it reconnects. */
export class Listener {
  readonly name: string;
  /** Every received message, in order. */
  readonly heard: number[] = [];
  last = 0;
  missed = false;
  welcomes = 0;
  #socket: WebSocket | undefined;

  constructor(name: string) {
    this.name = name;
  }

  get isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Joins the room, and receives the missed messages. */
  async enter(base: URL): Promise<void> {
    const ticket = roomTicket({ MILLRACE_KEY: KEY }, { name: "desk" }, "front", "acme", { name: this.name, maySend: true });
    const address = new URL(`/rooms/desk/front${this.last > 0 ? `?since=${this.last}` : ""}`, base);
    address.protocol = "ws:";
    const socket = new WebSocket(address.href, ["millrace.room", `ticket.${ticket}`]);
    this.#socket = socket;
    const welcomed = Promise.withResolvers<void>();
    socket.on("error", welcomed.reject);
    socket.on("message", (data) => {
      const frame: RoomFrame = JSON.parse(String(data));
      if (frame.type === "message") this.#hear(frame.sequence);
      if (frame.type !== "welcome") return;
      this.missed ||= frame.missed;
      this.welcomes++;
      for (const { sequence } of frame.messages) this.#hear(sequence);
      welcomed.resolve();
    });
    await welcomed.promise;
  }

  say(n: number): void {
    this.#socket?.send(JSON.stringify({ type: "send", body: { text: `${n}` }, key: `${n}` }));
  }

  leave(): void {
    this.#socket?.terminate();
  }

  #hear(sequence: number): void {
    this.heard.push(sequence);
    this.last = sequence;
  }
}
