/** The next step after requests were rejected, by reason. */
import type { HookRefusal } from '../../../../contract/source-words.ts'

export const adviceOf: Readonly<Record<HookRefusal, string>> = {
  missing_signature:
    'Enter the secret at the provider too, or choose the provider that sends to this address.',
  malformed: 'Check that this is the provider that sends, and the form of its signature.',
  wrong_signature:
    'Compare the secret with that of the provider. A proxy that changes the body has the same effect.',
  expired_timestamp: 'Check the clock of this machine, or raise the tolerance.',
  wrong_credentials: 'Compare both with the address that is entered at the provider.',
  wrong_token: 'Enter the present address at the provider.',
  wrong_verify_token: 'Enter the verify token of this page at the provider.',
  unreadable_secret: 'This happens when the sealing key was replaced.',
}
