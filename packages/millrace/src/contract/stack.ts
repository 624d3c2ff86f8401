/**
 * The frames of an error's stack, the innermost first, without the message, which may contain lines like frames and data that must not be
 * shown. Empty if the message was changed later and so is not in the stack, because the end of the original message in the stack is then
 * unknown.
 */
export function framesOf({ message, stack = "" }: Error): string[] {
  const at = stack.indexOf(message);
  if (at < 0) return [];
  return stack
    .slice(at + message.length)
    .split("\n")
    .filter((line) => /^\s+at /.test(line));
}

/** Replaces the message of an error, also in its stack, unless the message is read-only. */
export function sayInstead(error: Error, message: string): void {
  const frames = framesOf(error);
  Object.assign(error, { message, stack: [`${error.name}: ${message}`, ...frames].join("\n") });
}
