/** An authenticated client that joins, as the route passes it to the object. */
export interface Arrival {
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null for never. */
  until: number | null;
  /** The last message that the client received. */
  since: number | undefined;
  /** The subprotocol in the response to the client. */
  protocol: string | undefined;
}

/** The header that passes the client to the room's object. Only the binding reaches the object, so clients cannot set it. */
export const ARRIVAL_HEADER = "millrace-arrival";
