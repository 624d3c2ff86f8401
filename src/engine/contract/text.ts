/**
 * The beginning of a text: at most so many UTF-16 units, and whole characters only. Half of a surrogate pair has no UTF-8, so it could
 * be neither stored nor sent.
 */
export function beginning(text: string, max: number): string {
  const isWithin = text.length > max && isFirstHalf(text.charCodeAt(max - 1));
  return text.slice(0, isWithin ? max - 1 : max).toWellFormed();
}

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
