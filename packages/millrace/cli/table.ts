export interface Column {
  readonly title: string;
  readonly isNumber?: boolean;
}

export function tableLines(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map(({ title }, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    columns
      .map(({ isNumber = false }, at) => {
        const [cell = "", width = 0] = [cells[at], widths[at]];
        return isNumber ? cell.padStart(width) : cell.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map(line)];
}
