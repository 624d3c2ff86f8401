import type { Seats } from "./seat.ts";

/** The open sockets of a room by name. A socket that the room has closed does not count. */
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

  /** The number of different names of the room's open sockets. */
  get count(): number {
    return this.#names.size;
  }

  names(most: number): string[] {
    return this.#names.keys().take(most).toArray();
  }

  socketsOf(name: string): number {
    return this.#names.get(name) ?? 0;
  }

  /** Adds a socket. Returns true if no other open socket in the room has the same name. */
  enter(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = this.#names.get(name) ?? 0;
    this.#sockets.add(socket);
    this.#names.set(name, others + 1);
    return others === 0;
  }

  /**
   * Removes a socket. Returns true if no open socket with the socket's name remains. If the close of a socket ended the room's hibernation,
   * the socket may not have been counted.
   */
  leave(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = (this.#names.get(name) ?? 0) - (this.#sockets.delete(socket) ? 1 : 0);
    if (others > 0) this.#names.set(name, others);
    else this.#names.delete(name);
    return others <= 0;
  }
}
