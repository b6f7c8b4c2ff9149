/** UUIDs as they are in paths, bodies and stored rows: 8-4-4-4-12 hexadecimal digits, any version, either case. */
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** True for a UUID in its usual text form; no braces, no `urn:uuid:`. Ids are compared in lower case. */
export function isUuid(text: string): boolean {
  return uuidPattern.test(text)
}
