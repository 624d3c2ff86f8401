/** Who comes, as the route has made sure. */
export interface Arrival {
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null is never. */
  until: number | null;
  /** The last message that was heard. */
  since: number | undefined;
  /** The subprotocol that the client hears back. */
  protocol: string | undefined;
}

/** The header in which a room's object is told who comes: nobody reaches it but by its binding. */
export const ARRIVAL_HEADER = "millrace-arrival";
