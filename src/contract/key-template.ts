/**
 * Object keys are made from a template: literal text with tokens in braces, e.g.
 * `{pipe_name}/date={yyyy}-{MM}-{dd}/{first_seq}-{last_seq}.{ext}`. Checked when a destination is saved and rendered by
 * the object-store driver, both from the one parse below. Rules: contract "destination_type and its config".
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
        return { ok: false, message: `has a "${piece}" without its counterpart` }
      parts.push({ text: piece })
      continue
    }
    const token = keyTemplateTokens.find((known) => known === inBraces)
    if (token === undefined)
      return { ok: false, message: `has an unknown token {${inBraces}}; ${knownTokens}` }
    parts.push({ token })
  }
  if (!parts.some((part) => 'token' in part && part.token === 'first_seq'))
    return { ok: false, message: 'must hold {first_seq}, or two batches would get the same key' }
  return { ok: true, parts }
}

/** Fills in the tokens. `values` gives each token's text; nothing is escaped. */
export function renderKey(
  parts: readonly KeyTemplatePart[],
  values: Readonly<Record<KeyTemplateToken, string>>,
): string {
  return parts.map((part) => ('text' in part ? part.text : values[part.token])).join('')
}

const knownTokens = `known are ${keyTemplateTokens.map((token) => `{${token}}`).join(' ')}`
