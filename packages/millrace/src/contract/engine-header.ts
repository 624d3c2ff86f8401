/**
 * A header of every response of the engine. Clients use the header to distinguish an engine from any other server that returns 200 at the
 * address.
 */
export const ENGINE_HEADER = "millrace-api";
