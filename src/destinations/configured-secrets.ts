/** Every value of a destination's config that a server could send back to us and that must not be stored or shown. */
import { hasSecretPath, mapSecrets } from '../contract/destination-secrets.ts'
import { urlSecrets } from '../contract/secret-url.ts'
import type { DestinationSpec } from './driver.ts'

/** `unsealed`: the secrets that the descriptor of the type names. */
export function configuredSecrets(spec: DestinationSpec, unsealed: readonly string[]): string[] {
  const values = [...unsealed]
  const isPathSecret = hasSecretPath({ ...spec.config })
  mapSecrets(spec.type, { ...spec.config }, (value, _, kind) => {
    if (kind === 'url') values.push(...urlSecrets(value, isPathSecret))
    else values.push(value)
    return value
  })
  return values.filter((value) => value !== '')
}
