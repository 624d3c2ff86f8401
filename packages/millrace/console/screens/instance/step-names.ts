/** A step's name with the key of its item, as the code and the platform say it. */
export function labelOf({ step, item }: { step: string; item: string }): string {
  return item ? `${step} [${item}]` : step;
}

/** The step and the item of such a name. */
export function stepOf(label: string): { step: string; item?: string } {
  const [, step = label, item] = /^(.+?) \[(.+)\]$/s.exec(label) ?? [];
  return item === undefined ? { step } : { step, item };
}
