import type { Seats } from "./seat.ts";

/** The open sockets of a room by name. A socket that this side has closed is not counted any more. */
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

  /** Number of different names. */
  get count(): number {
    return this.#names.size;
  }

  names(most: number): string[] {
    return this.#names.keys().take(most).toArray();
  }

  socketsOf(name: string): number {
    return this.#names.get(name) ?? 0;
  }

  /** Returns true for the first socket of its name. */
  enter(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = this.#names.get(name) ?? 0;
    this.#sockets.add(socket);
    this.#names.set(name, others + 1);
    return others === 0;
  }

  /** Returns true for the last socket of its name. A socket that woke the room by its close may not have been counted. */
  leave(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = (this.#names.get(name) ?? 0) - (this.#sockets.delete(socket) ? 1 : 0);
    if (others > 0) this.#names.set(name, others);
    else this.#names.delete(name);
    return others <= 0;
  }
}
