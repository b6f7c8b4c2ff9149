/** Lists the values in a destination's config that a server could echo and that must never be stored or shown. */
import { hasSecretPath, mapSecrets } from '../contract/destination-secrets.ts'
import { urlSecrets } from '../contract/secret-url.ts'
import type { DestinationSpec } from './driver.ts'

/** `unsealed`: further secret values that the type's descriptor lists (`secrets`). */
export function configuredSecrets(spec: DestinationSpec, unsealed: readonly string[]): string[] {
  const values = [...unsealed]
  const isPathSecret = hasSecretPath(spec.type, { ...spec.config })
  mapSecrets(spec.type, { ...spec.config }, (value, _, kind) => {
    if (kind === 'url') values.push(...urlSecrets(value, isPathSecret))
    else values.push(value)
    return value
  })
  return values.filter((value) => value !== '')
}
