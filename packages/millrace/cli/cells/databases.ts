export type Row = Record<string, string | number | null | undefined>;

export interface Sql {
  readonly text: string;
  readonly params: readonly (string | number | null | undefined)[];
}

/** Runs statements on the database of a cell in one transaction, and returns the rows of each statement. */
export type Databases = (cell: number, statements: readonly Sql[]) => Promise<Row[][]>;
