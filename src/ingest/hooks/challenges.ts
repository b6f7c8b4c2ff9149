/**
 * Requests by which a provider verifies an address, when it is entered there. They are answered and not stored.
 *
 * | provider               | request                                                        | response                            |
 * |------------------------|----------------------------------------------------------------|-------------------------------------|
 * | Meta, WebSub           | GET hub.mode=subscribe, hub.verify_token, hub.challenge        | the challenge                       |
 * | Slack                  | POST, signed: {"type":"url_verification","challenge":"…"}      | the challenge                       |
 * | Zoom                   | POST, signed: {"event":"endpoint.url_validation","payload":…}  | JSON with the HMAC of the token     |
 * | Dropbox, Adobe, Nylas  | GET challenge=…                                                | the challenge                       |
 * | Microsoft Graph        | POST validationToken=…, without a body                         | the token                           |
 * | Okta                   | GET X-Okta-Verification-Challenge: …                           | JSON with the challenge             |
 *
 * The last three carry no proof of the sender. They are answered only for sources whose secret is in the request itself:
 * the token in the path, or a password. X (crc_token) is left out: it wants the HMAC of a text that any caller chooses.
 */

import { createHmac } from 'node:crypto'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { OpenedSource } from '../../contract/source-words.ts'
import { verifyBasic, verifyHmac, verifySecretUrl } from './providers.ts'
import type { Answered, HookRequest, Refused, SourceOf } from './request.ts'
import { asBuffer, isSameSecret, plainMember, rawMember, refused } from './signature.ts'

/** A GET that asks for nothing which the source answers is `malformed`. */
export function challengeByGet(source: OpenedSource, request: HookRequest): Answered | Refused {
  switch (source.type) {
    case 'hmac':
      return hubChallenge(source.settings.verify_token, request)
    case 'secret_url': {
      const verdict = verifySecretUrl(source, request)
      if (!verdict.ok) return verdict
      const { verify_token } = source.settings
      return isHub(request) ? hubChallenge(verify_token, request) : plainChallenge(request)
    }
    case 'basic': {
      const verdict = verifyBasic(source, request)
      return verdict.ok ? plainChallenge(request) : verdict
    }
    default:
      return refused('malformed')
  }
}

/** Null: the verified request is not a challenge. */
export function challengeByPost(source: OpenedSource, request: HookRequest): Answered | Refused | null {
  if (request.body.length > resourceLimits.hookChallengeBytes) return null
  switch (source.type) {
    case 'slack':
      return slackChallenge(request)
    case 'hmac':
      return source.settings.header.toLowerCase() === 'x-zm-signature' ? zoomChallenge(source, request) : null
    case 'secret_url':
    case 'basic': {
      // A request with a body is an event, whatever its query is.
      const token = request.body.length === 0 ? parameter(request, 'validationToken') : null
      return token === null ? null : answered(token)
    }
    default:
      return null
  }
}

function isHub(request: HookRequest): boolean {
  return parameter(request, 'hub.mode') !== null
}

function hubChallenge(verifyToken: string | null, request: HookRequest): Answered | Refused {
  const challenge = parameter(request, 'hub.challenge')
  if (parameter(request, 'hub.mode') !== 'subscribe' || challenge === null) return refused('malformed')
  const given = parameter(request, 'hub.verify_token') ?? ''
  if (!verifyToken || !isSameSecret(given, verifyToken)) return refused('wrong_verify_token')
  return answered(challenge)
}

function plainChallenge(request: HookRequest): Answered | Refused {
  const challenge = parameter(request, 'challenge') ?? parameter(request, 'validationToken')
  if (challenge !== null) return answered(challenge)
  const okta = request.headers('x-okta-verification-challenge')
  return okta !== undefined && isPlain(okta) ? answeredJson({ verification: okta }) : refused('malformed')
}

function slackChallenge({ body }: HookRequest): Answered | Refused | null {
  const json = asBuffer(body)
  if (plainMember(json, 'type') !== 'url_verification') return null
  const challenge = plainMember(json, 'challenge')
  return challenge === null ? refused('malformed') : answered(challenge)
}

/** https://developers.zoom.us/docs/api/webhooks/#validate-your-webhook-endpoint */
function zoomChallenge(source: SourceOf<'hmac'>, request: HookRequest): Answered | Refused | null {
  const json = asBuffer(request.body)
  if (plainMember(json, 'event') !== 'endpoint.url_validation') return null
  const plainToken = plainMember(rawMember(json, 'payload') ?? Buffer.alloc(0), 'plainToken')
  // During a rotation the answer is signed with the secret that Zoom used.
  const secret = source.secrets.find((one) => verifyHmac({ ...source, secrets: [one] }, request).ok)
  if (plainToken === null || secret === undefined) return refused('malformed')
  const encryptedToken = createHmac('sha256', secret).update(plainToken).digest('hex')
  return answeredJson({ plainToken, encryptedToken })
}

function parameter({ query }: HookRequest, name: string): string | null {
  return query.length > resourceLimits.hookHeaderCharacters ? null : new URLSearchParams(query).get(name)
}

function answered(challenge: string): Answered | Refused {
  if (!isPlain(challenge)) return refused('malformed')
  return { ok: true, answer: { status: 200, type: 'text/plain; charset=utf-8', body: challenge } }
}

function answeredJson(body: Record<string, string>): Answered {
  return { ok: true, answer: { status: 200, type: 'application/json', body: JSON.stringify(body) } }
}

function isPlain(challenge: string): boolean {
  return challenge.length <= resourceLimits.hookChallengeCharacters && /^[\x20-\x7e]+$/.test(challenge)
}
