/** The state of one socket. The platform stores it with the socket while the object hibernates. */
export interface Seat {
  /** The kind of the room. The kind is stored because a room's object that a socket wakes does not get the room's name. */
  kind: string;
  /** The actor of the token, or the guest's name on the ticket. */
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null for a token without an end. */
  until: number | null;
  /** The number of frames that the client may send without a delay at the time `at`. */
  room: number;
  at: number;
  /** True after either side has closed the socket, so that later events of the socket are ignored. */
  hasLeft?: true;
}

/** The state of a socket after one more frame; undefined if the frame exceeds the rate. */
export function afterFrame(seat: Seat, rate: { burst: number; perSecond: number }, now: number): Seat | undefined {
  const room = Math.min(rate.burst, seat.room + (Math.max(0, now - seat.at) / 1000) * rate.perSecond);
  return room < 1 ? undefined : { ...seat, room: room - 1, at: now };
}

/** The states of open sockets, which are read from the platform once and then cached. */
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
