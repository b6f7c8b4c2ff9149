/**
 * Templates of object keys: literal text with tokens in braces, such as
 * `{pipe_name}/date={yyyy}-{MM}-{dd}/{first_seq}-{last_seq}.{ext}`. The check on saving a destination and the
 * object-store driver use the same parser. Rules: docs/dev/contract.md#destinations.
 */

/** All valid tokens. Times are those of the batch's first message, in UTC. */
export const keyTemplateTokens = [
  'pipe_name',
  'pipe_id',
  'destination_id',
  'yyyy',
  'MM',
  'dd',
  'HH',
  'mm',
  'ss',
  'first_seq',
  'last_seq',
  'msg_id',
  'epoch',
  'ext',
] as const
export type KeyTemplateToken = (typeof keyTemplateTokens)[number]

export type KeyTemplatePart = { text: string } | { token: KeyTemplateToken }
export type ParsedKeyTemplate =
  | { ok: true; parts: readonly KeyTemplatePart[] }
  /** A sentence that continues the name of the field and names the invalid token. */
  | { ok: false; message: string }

/** Parses and checks a template. `{first_seq}` is required; without it two batches could get the same key. */
export function parseKeyTemplate(template: string): ParsedKeyTemplate {
  const parts: KeyTemplatePart[] = []
  for (const [piece, inBraces] of template.matchAll(/\{([^{}]*)\}|[^{}]+|[{}]/g)) {
    if (inBraces === undefined) {
      if (piece === '{' || piece === '}')
        return { ok: false, message: `has a "${piece}" without the matching brace` }
      parts.push({ text: piece })
      continue
    }
    const token = keyTemplateTokens.find((known) => known === inBraces)
    if (token === undefined)
      return { ok: false, message: `has an unknown token {${inBraces}}; ${knownTokens}` }
    parts.push({ token })
  }
  const fault = textFault(parts)
  if (fault !== null) return { ok: false, message: fault }
  if (!parts.some((part) => 'token' in part && part.token === 'first_seq'))
    return { ok: false, message: 'must contain {first_seq}, or two batches would get the same key' }
  return { ok: true, parts }
}

/** Rejects texts that a store which keeps objects as files could resolve to a path outside the bucket. */
function textFault(parts: readonly KeyTemplatePart[]): string | null {
  const text = parts.map((part) => ('text' in part ? part.text : '{}')).join('')
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) return 'must not contain control characters'
  if (text.startsWith('/')) return 'must not begin with /'
  if (text.includes('\\')) return 'must not contain a backslash'
  const isStep = (segment: string) => segment === '.' || segment === '..'
  return text.split('/').some(isStep) ? 'must not contain . or .. between slashes' : null
}

/** Replaces each token by its text in `values`. Nothing is escaped. */
export function renderKey(
  parts: readonly KeyTemplatePart[],
  values: Readonly<Record<KeyTemplateToken, string>>,
): string {
  return parts.map((part) => ('text' in part ? part.text : values[part.token])).join('')
}

/**
 * The key in the given epoch of the data directory. After a restore, a batch can start at the same message as a lost
 * batch but end at another. From the second epoch on, a template without `{last_seq}` and `{epoch}` therefore gets
 * the epoch before the extension.
 */
export function keyInEpoch(
  key: string,
  parts: readonly KeyTemplatePart[],
  { epoch, extension }: { epoch: number; extension: string },
): string {
  const isTold = parts.some((part) => 'token' in part && ['last_seq', 'epoch'].includes(part.token))
  return epoch === 1 || isTold ? key : keyWith(`-e${epoch}`, key, extension)
}

/** Inserts `addition` before the extension, or before the text that is used as one. */
export function keyWith(addition: string, key: string, extension: string): string {
  const suffix = key.endsWith(`.${extension}`) ? `.${extension}` : (/\.[^./]*$/.exec(key)?.[0] ?? '')
  return `${key.slice(0, key.length - suffix.length)}${addition}${suffix}`
}

const knownTokens = `the tokens are ${keyTemplateTokens.map((token) => `{${token}}`).join(' ')}`
