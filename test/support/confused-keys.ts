/**
 * JSON.parse of V8 13.6 (Node.js 24) compares a key as it is written, escapes included, with the one that followed
 * the same keys in an earlier object: after a key that begins with a backslash, some that are written with escapes
 * are taken for it. The product therefore reads a record's members in the record's text.
 */
export function confusesEscapedKeys(): boolean {
  JSON.parse('{"tries JSON.parse":0,"\\\\":0}')
  return !Object.hasOwn(JSON.parse('{"tries JSON.parse":0,"\\u005d":0}'), ']')
}

export const confusedKeysInWords = 'JSON.parse of this Node.js takes keys with escapes for others'
