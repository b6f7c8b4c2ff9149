/** The formats of an input. On their own, because the help needs them without the readers. */
export const formats = ['json', 'ndjson', 'csv', 'tsv', 'parquet'] as const
export type InputFormat = (typeof formats)[number]
