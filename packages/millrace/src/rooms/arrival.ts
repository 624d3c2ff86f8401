/** An authenticated client that joins a room, in the form that the route passes to the room's object. */
export interface Arrival {
  name: string;
  maySend: boolean;
  /** The time when the token expires, in milliseconds since 1970; null for a token that does not expire. */
  until: number | null;
  /** The sequence number of the last message that the client received. */
  since: number | undefined;
  /** The WebSocket subprotocol in the response to the client. */
  protocol: string | undefined;
}

/**
 * The header that contains the arrival as JSON, in the request to the room's object. Requests reach the object only through the binding, so
 * clients cannot set the header.
 */
export const ARRIVAL_HEADER = "millrace-arrival";
