import { ApiError } from '../../contract/errors.ts'
import { type HookRefusal, hookRefusals, type SourceType } from '../../contract/source-words.ts'

/** A webhook that could not be verified. */
export class RejectedHook extends ApiError {
  readonly reason: HookRefusal

  constructor(reason: HookRefusal, source: SourceType | null) {
    super('hook_rejected', {
      message: `The webhook could not be verified. ${hookRefusals[reason]}`,
      details: { reason },
      // A client with a password sends it only after a challenge.
      headers: { 'WWW-Authenticate': source === 'basic' ? 'Basic realm="webhooks"' : 'Signature' },
    })
    this.reason = reason
  }
}
