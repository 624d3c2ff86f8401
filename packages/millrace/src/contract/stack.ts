/**
 * The frames of an error's stack, the innermost first, without the message, which may contain lines like frames and data that must not be
 * shown. Empty when the stack does not contain the message, because it was changed later: then its end is unknown.
 */
export function framesOf({ message, stack = "" }: Error): string[] {
  const at = stack.indexOf(message);
  if (at < 0) return [];
  return stack
    .slice(at + message.length)
    .split("\n")
    .filter((line) => /^\s+at /.test(line));
}

/** Replaces an error's message, in its stack too, unless it is read-only. */
export function sayInstead(error: Error, message: string): void {
  const frames = framesOf(error);
  Object.assign(error, { message, stack: [`${error.name}: ${message}`, ...frames].join("\n") });
}
