/**
 * A header of every answer of an engine. By it a client tells an engine from whatever else answers at an address: that says 200 to anything
 * as well.
 */
export const ENGINE_HEADER = "millrace-api";
