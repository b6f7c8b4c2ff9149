/** The words of schemas of pipes that clients need without the verification: results, formats, limits. */

/** The treatment of records that do not match the schema of their pipe. */
export const mismatchActions = ['reject', 'park', 'tag'] as const
export type MismatchAction = (typeof mismatchActions)[number]

/** The counted results of records that did not match. */
export const mismatchResults = ['rejected', 'parked', 'tagged'] as const
export type MismatchResult = (typeof mismatchResults)[number]
/** Records by result. A result without any is left out. */
export type Mismatches = Partial<Record<MismatchResult, number>>

export function isMismatchResult(text: string): text is MismatchResult {
  return (mismatchResults as readonly string[]).includes(text)
}

/** Adds `added` to `sum`, or subtracts it. */
export function addMismatches(sum: Mismatches, added: Mismatches, sign: 1 | -1 = 1): void {
  for (const result of mismatchResults) {
    const records = added[result]
    if (records !== undefined) sum[result] = (sum[result] ?? 0) + sign * records
  }
}

export const schemaTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] as const
export type SchemaType = (typeof schemaTypes)[number]

export const schemaFormats = [
  ...(['date-time', 'date', 'time', 'email', 'uuid', 'uri', 'ipv4', 'ipv6', 'hostname'] as const),
] as const
export type SchemaFormat = (typeof schemaFormats)[number]

/** The limits of a schema. */
export const schemaLimits = {
  /** Bytes of JSON. The schemas of all pipes of a workspace can have `workspaceBytes` together. */
  bytes: 64 * 1024,
  workspaceBytes: 4 * 1024 * 1024,
  /** Schemas inside schemas. */
  depth: 32,
  /** Schemas, each `$ref` counted with the definition that it names. */
  nodes: 2_000,
  patterns: 50,
  patternCharacters: 500,
  /** Values of one `enum`. */
  enumValues: 1_000,
  /** Previous versions that are kept, including the current one. */
  versions: 10,
  /** Errors in a response, and in a tagged record. */
  shownErrors: 10,
} as const
