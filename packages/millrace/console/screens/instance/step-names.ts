/** The name of a step and the key of its item, as in the code and on the platform. */
export function labelOf({ step, item }: { step: string; item: string }): string {
  return item ? `${step} [${item}]` : step;
}

export function stepOf(label: string): { step: string; item?: string } {
  const [, step = label, item] = /^(.+?) \[(.+)\]$/s.exec(label) ?? [];
  return item === undefined ? { step } : { step, item };
}
