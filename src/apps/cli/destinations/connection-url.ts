/**
 * `--url`: a destination as one URL. The scheme selects the type, whose table parses the URL (`url`).
 *
 * A URL that contains a secret is rejected, because command lines are visible to other users and stored in shell
 * histories.
 */
import { type DestinationType, destinationTypes, wordsOf } from '../../../contract/destination-words.ts'
import type { Config } from '../../../contract/destinations/config-field.ts'
import { ConnectionUrlError } from '../../../contract/destinations/connection-url.ts'
import { type Failure, usageFailure } from '../../client/failure.ts'

export interface NamedDestination {
  destination_type: DestinationType
  destination_config: Config
}

const forms = destinationTypes.flatMap((type) => wordsOf(type).url?.form ?? [])

/** For `--help`. */
export const urlHelp = `the destination as a URL: ${forms.join(', ')}`

/** The type and the config without secrets. Throws Failure (usage); its message never contains a password. */
export function parseDestinationUrl(text: string): NamedDestination {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw wrong('it is not a URL', `write it as ${forms[0]}`)
  }
  if (url.password !== '') {
    throw wrong(
      'it holds a password, which everyone on this machine can see',
      'omit it: it is read from PIPECTL_DESTINATION_PASSWORD (for HTTP: PIPECTL_DESTINATION_AUTH_HEADER) or a prompt. Change the password that you just typed',
    )
  }
  for (const type of destinationTypes) {
    const { url: form } = wordsOf(type)
    if (!form?.schemes.some((scheme) => url.protocol === `${scheme}:`)) continue
    try {
      const config = form.parse(url, text)
      const missing = form.needs.find((key) => config[key] === undefined)
      if (missing !== undefined) throw wrong(`it names no ${missing}`, `write it as ${form.form}`)
      return { destination_type: type, destination_config: config }
    } catch (error) {
      if (error instanceof ConnectionUrlError) throw wrong(error.message, error.hint)
      throw error
    }
  }
  const schemes = destinationTypes.flatMap((type) => wordsOf(type).url?.schemes ?? [])
  throw wrong(
    `${url.protocol}// is not a kind of destination`,
    `use one of ${schemes.map((scheme) => `${scheme}://`).join(', ')}`,
  )
}

function wrong(what: string, hint: string): Failure {
  return usageFailure(`--url: ${what}`, hint)
}
