/** Who sits at a socket: kept by the platform with the socket while the object sleeps. */
export interface Seat {
  /** The kind of the room: an object that a socket wakes is not told its own name. */
  kind: string;
  /** The actor of the token, or whom the app named. */
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null is never. */
  until: number | null;
  /** What may be said at once, as of `at`. */
  room: number;
  at: number;
  /** True from its close on, by either side: nothing that comes of it is heard. */
  hasLeft?: true;
}

/** The seat after one more frame, or undefined when that is one too many. */
export function afterFrame(seat: Seat, rate: { burst: number; perSecond: number }, now: number): Seat | undefined {
  const room = Math.min(rate.burst, seat.room + (Math.max(0, now - seat.at) / 1000) * rate.perSecond);
  return room < 1 ? undefined : { ...seat, room: room - 1, at: now };
}

/** The seats of open sockets: read from the platform once, and then known. */
export class Seats {
  readonly #seats = new WeakMap<WebSocket, Seat>();

  of(socket: WebSocket): Seat {
    const known = this.#seats.get(socket) ?? (socket.deserializeAttachment() as Seat);
    this.#seats.set(socket, known);
    return known;
  }

  take(socket: WebSocket, seat: Seat): void {
    socket.serializeAttachment(seat);
    this.#seats.set(socket, seat);
  }
}
