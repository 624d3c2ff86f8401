import type { Seats } from "./seat.ts";

/** The open sockets of a room, and whose they are. One that this side has closed is none of them, whatever its client makes of that. */
export class Present {
  readonly #seats: Seats;
  readonly #sockets = new Set<WebSocket>();
  readonly #names = new Map<string, number>();

  constructor(seats: Seats, sockets: readonly WebSocket[]) {
    this.#seats = seats;
    for (const socket of sockets) if (!seats.of(socket).hasLeft) this.enter(socket);
  }

  get sockets(): ReadonlySet<WebSocket> {
    return this.#sockets;
  }

  /** Different people. */
  get count(): number {
    return this.#names.size;
  }

  names(most: number): string[] {
    return this.#names.keys().take(most).toArray();
  }

  /** Open sockets of a name. */
  socketsOf(name: string): number {
    return this.#names.get(name) ?? 0;
  }

  /** True for the first socket of its name. */
  enter(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = this.#names.get(name) ?? 0;
    this.#sockets.add(socket);
    this.#names.set(name, others + 1);
    return others === 0;
  }

  /** True for the last socket of its name. One that woke its room by closing may not have been counted. */
  leave(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = (this.#names.get(name) ?? 0) - (this.#sockets.delete(socket) ? 1 : 0);
    if (others > 0) this.#names.set(name, others);
    else this.#names.delete(name);
    return others <= 0;
  }
}
