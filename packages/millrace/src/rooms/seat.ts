/** The state of one socket. The platform stores it with the socket while the object hibernates. */
export interface Seat {
  /** The kind of the room: an object that a socket wakes does not get its own name. */
  kind: string;
  /** The actor of the token, or the name that the app gave. */
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null for never. */
  until: number | null;
  /** Frames that may be sent at once, as of `at`. */
  room: number;
  at: number;
  /** True after its close by either side: later events of the socket are ignored. */
  hasLeft?: true;
}

/** The seat after one more frame; undefined if that exceeds the rate. */
export function afterFrame(seat: Seat, rate: { burst: number; perSecond: number }, now: number): Seat | undefined {
  const room = Math.min(rate.burst, seat.room + (Math.max(0, now - seat.at) / 1000) * rate.perSecond);
  return room < 1 ? undefined : { ...seat, room: room - 1, at: now };
}

/** The seats of open sockets: read from the platform once, then cached. */
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
