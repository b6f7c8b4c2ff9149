/** Limits of a page of the blocking message's records. Free of schemas. */
export const blockingPage = { default: 20, max: 1_000 } as const
/** The upper bound of a record index. No message has more records. */
export const maxRecords = 2 ** 31 - 1
