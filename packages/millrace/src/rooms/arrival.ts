/** An authenticated client that joins a room, in the form that the route passes to the room's object. */
export interface Arrival {
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null for a token without an end. */
  until: number | null;
  /** The number of the last message that the client received. */
  since: number | undefined;
  /** The subprotocol in the response to the client. */
  protocol: string | undefined;
}

/**
 * The header that passes the client to the room's object. Requests reach the object only through the binding, so clients cannot set the
 * header.
 */
export const ARRIVAL_HEADER = "millrace-arrival";
