/** The variable in which the local runtime is given V8's own flags. */
export const V8_FLAGS = "MINIFLARE_WORKERD_V8_FLAGS";

/**
 * Enlarges the young generation of the tests' runtimes: all files of a project live in one isolate, whose collector would run every
 * few milliseconds (measured: a thirtieth of the processor's time). A variable that is set already stays.
 */
export function roomForTheYoung(): void {
  process.env[V8_FLAGS] ??= "--min-semi-space-size=32 --max-semi-space-size=64";
}
