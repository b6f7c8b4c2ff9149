/**
 * Object keys are made from a template: literal text with tokens in braces, e.g.
 * `{pipe_name}/date={yyyy}-{MM}-{dd}/{first_seq}-{last_seq}.{ext}`. Checked when a destination is saved and rendered by
 * the object-store driver, both from the one parse below. Rules: docs/dev/contract.md#destinations.
 */

/** Everything a template may hold in braces. Times are those of the batch's first message, UTC. */
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
  /** A sentence for people that goes after the field's name; it names the bad token. */
  | { ok: false; message: string }

/** Parses and checks a template. `{first_seq}` is required: without it two batches would get one key. */
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

/** A store that keeps its objects as files would take some texts for places outside the bucket. */
function textFault(parts: readonly KeyTemplatePart[]): string | null {
  const text = parts.map((part) => ('text' in part ? part.text : '{}')).join('')
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) return 'must not contain control characters'
  if (text.startsWith('/')) return 'must not begin with /'
  if (text.includes('\\')) return 'must not contain a backslash'
  const isStep = (segment: string) => segment === '.' || segment === '..'
  return text.split('/').some(isStep) ? 'must not contain . or .. between slashes' : null
}

/** Fills in the tokens. `values` gives each token's text; nothing is escaped. */
export function renderKey(
  parts: readonly KeyTemplatePart[],
  values: Readonly<Record<KeyTemplateToken, string>>,
): string {
  return parts.map((part) => ('text' in part ? part.text : values[part.token])).join('')
}

/**
 * The key as it is in the given epoch of the data directory. From the second on, after a restore, a batch may begin as one
 * of the lost timeline did and end otherwise: where the template tells such two apart neither by `{last_seq}` nor by
 * `{epoch}`, the epoch stands before the extension.
 */
export function keyInEpoch(
  key: string,
  parts: readonly KeyTemplatePart[],
  { epoch, extension }: { epoch: number; extension: string },
): string {
  const isTold = parts.some((part) => 'token' in part && ['last_seq', 'epoch'].includes(part.token))
  return epoch === 1 || isTold ? key : keyWith(`-e${epoch}`, key, extension)
}

/** Before the extension, or what stands for one. */
export function keyWith(addition: string, key: string, extension: string): string {
  const suffix = key.endsWith(`.${extension}`) ? `.${extension}` : (/\.[^./]*$/.exec(key)?.[0] ?? '')
  return `${key.slice(0, key.length - suffix.length)}${addition}${suffix}`
}

const knownTokens = `known are ${keyTemplateTokens.map((token) => `{${token}}`).join(' ')}`
