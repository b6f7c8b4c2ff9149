/** UUIDs in paths, bodies and stored rows: 8-4-4-4-12 hexadecimal digits, any version, upper or lower case. */
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** True for a UUID in its usual text form, without braces or `urn:uuid:`. Ids are compared in lower case. */
export function isUuid(text: string): boolean {
  return uuidPattern.test(text)
}
