-- Token bucket. State: when it is full again, a remainder in units of which a microsecond pays back
-- the rate, and the pace of the last charge: that rate, and above its 50 bits a class c, for which
-- a refill takes at most 8^c windows (7: any time).
-- Rule: kind, pace, the whole microseconds that an empty bucket takes to fill, the remainder, and the
-- window.
--
-- A cost comes as the microseconds and the remainder that it takes to refill. Debts are compared and
-- added as such pairs, so nothing here is rounded.
local function token_bucket()
  local it, stored = { sums = true }, bucket()

  function it.read(_, raw)
    local full_at, rate = stored.whole(raw)
    if full_at then return full_at, 0, rate end
    local format = stored.SHORT[#raw]
    if not format then return unpack_three(raw) end
    local head, low, rest, code = parse(format, raw)
    local unit = #raw == 11 and SHORT_RATE or LONG_RATE
    local rate = code % unit
    return head % BEFORE * HIGH + low, rest, (code - rate) / unit * RATE_LIMIT + rate
  end

  local function is_more(micros, rest, other_micros, other_rest)
    return micros > other_micros or (micros == other_micros and rest > other_rest)
  end

  -- The same debt at another rate, (micros * old + rest) / new, bit by bit, up to the given maximum.
  -- Needed once for each key after a limit has changed, and where limits share a counter.
  local function converted(micros, rest, old, new, most, most_rest)
    local quotient, remainder = 0, 0
    local bit = 1
    while bit * 2 <= micros do bit = bit * 2 end
    while bit >= 1 do
      quotient, remainder = quotient * 2, remainder * 2
      if micros >= bit then
        micros, remainder = micros - bit, remainder + old
      end
      local carried = floor(remainder / new)
      quotient, remainder = quotient + carried, remainder - carried * new
      if quotient > most then return most, most_rest, true end
      bit = bit / 2
    end
    remainder = remainder + rest
    local carried = floor(remainder / new)
    quotient, remainder = quotient + carried, remainder - carried * new
    if is_more(quotient, remainder, most, most_rest) then return most, most_rest, true end
    return quotient, remainder, false
  end

  -- The debt now at this rule's rate, up to the debt of an empty bucket, and whether it is more.
  local function owed(rule, micros, rest, pace)
    local rate, own = pace % RATE_LIMIT, rule[2] % RATE_LIMIT
    if rate ~= own and (micros > 0 or rest > 0) then
      return converted(micros, rest, rate, own, rule[3], rule[4])
    end
    if is_more(micros, rest, rule[3], rule[4]) then return rule[3], rule[4], true end
    return micros, rest, false
  end

  -- The sum of a cost and one of another rule. A cost is a time, which depends on the rate.
  function it.plus(rule, cost, rest, other)
    local rate = rule[2] % RATE_LIMIT
    local more, more_rest =
      converted(other[6], other[7], other[2] % RATE_LIMIT, rate, rule[3] + 1, 0)
    rest = rest + more_rest
    local carried = floor(rest / rate)
    return cost + more + carried, rest - carried * rate
  end

  -- How long a bucket of this pace takes to refill, at most.
  local function longest(rule, pace)
    local class = floor(pace / RATE_LIMIT)
    if class >= SLOWEST then return LONGEST_REFILL end
    return min(rule[5] * 8 ^ class, LONGEST_REFILL)
  end

  -- The debt at its own rate, the debt at the rule's rate, and whether it was reduced: more than twice
  -- the debt that the last charge can have left comes from a clock that went back.
  local function debt(rule, now, full_at, rest, pace)
    local micros = full_at - now
    if micros < 0 then return 0, 0, 0, 0, false end
    local own, own_rest, is_too_much = owed(rule, micros, rest, pace)
    if is_too_much then
      local most = longest(rule, pace)
      if micros > 2 * most then
        own, own_rest = owed(rule, most, 0, pace)
        return most, 0, own, own_rest, true
      end
    end
    return micros, rest, own, own_rest, false
  end

  function it.take(rule, now, full_at, rest, pace, cost, cost_rest)
    local _, _, micros, own_rest = debt(rule, now, full_at, rest, pace)
    local rate = rule[2] % RATE_LIMIT
    rest = own_rest + cost_rest
    local carried = floor(rest / rate)
    micros, rest = micros + cost + carried, rest - carried * rate
    return not is_more(micros, rest, rule[3], rule[4]), now + micros, rest, rule[2]
  end

  function it.deny(rule, now, full_at, rest, pace)
    local micros, rest, _, _, is_pulled_back = debt(rule, now, full_at, rest, pace)
    if is_pulled_back then return true, now + micros, rest, pace end
  end

  -- The amount is in units. This limit's capacity does not matter: another limit may have charged it.
  function it.give(rule, now, full_at, rest, pace, amount)
    local micros, rest = debt(rule, now, full_at, rest, pace)
    -- A full bucket stays as it is: with a new timestamp, it would owe something if the clock went
    -- back. The pace stays too: a refund must not make others wait longer.
    if micros == 0 and rest == 0 then return false end
    local rate = pace % RATE_LIMIT
    local given, given_rest = converted(amount, 0, rule[5], rate, micros, rest)
    micros, rest = micros - given, rest - given_rest
    if rest < 0 then micros, rest = micros - 1, rest + rate end
    return true, now + micros, rest, pace
  end

  -- When a state is full, and what its time to live was rounded to.
  local function rounded(raw)
    local was_full_at, _, round = stored.whole(raw)
    if was_full_at then return was_full_at, round, true end
    if not stored.SHORT[#raw] then return 0, 0 end
    local head, low = parse('>BI6', raw)
    return head % BEFORE * HIGH + low, floor(head / BEFORE)
  end

  function it.write(key, rule, now, raw, full_at, rest, pace)
    if raw then
      local was_full_at, round, is_whole = rounded(raw)
      local cell = stored.step(round)
      -- The time to live is still long enough.
      if round > 0 and floor(full_at / cell) * cell <= was_full_at then
        local state = stored.packed(rule, round, full_at, rest, pace)
        if is_whole and stored.whole(state) then return call('SET', key, state, 'KEEPTTL') end
        if not is_whole and #state == #raw then return call('SETRANGE', key, '0', state) end
      end
    end
    return stored.keep(key, rule, now, raw, full_at, rest, pace)
  end

  return it
end
