/**
 * Where an error was thrown: the lines of its stack that say so, the innermost first. Never the message that stands before them, whose own
 * lines may look alike and say what nobody may see. Empty where the stack does not hold the message, because that was changed since: then
 * nobody knows where it ends.
 */
export function framesOf({ message, stack = "" }: Error): string[] {
  const at = stack.indexOf(message);
  if (at < 0) return [];
  return stack
    .slice(at + message.length)
    .split("\n")
    .filter((line) => /^\s+at /.test(line));
}

/** Changes what an error says, in its stack too, where it can be changed. */
export function sayInstead(error: Error, message: string): void {
  const frames = framesOf(error);
  Object.assign(error, { message, stack: [`${error.name}: ${message}`, ...frames].join("\n") });
}
