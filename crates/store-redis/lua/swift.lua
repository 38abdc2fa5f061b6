-- Decides the keys that are not connected. Each rule has a loop that handles only the ordinary case,
-- and leaves the rest to the full algorithms; if it leaves nothing, those are not even created. There
-- are no functions here for the same reason: creating one takes as long as deciding a request.

-- The number of keys, and the keys that are left, each followed by its rule.
local count, left, leaving = 0, {}, 0

for i = 1, #rules do
  local rule = rules[i]
  local kind, limit, window, scale, cost = rule[1], rule[2], rule[3], rule[4], rule[6]
  local first, last = count + 1, count + runs[i]
  count = last
  -- Left: no keys, keys with times of their own, or a peek.
  if last < first or phases or cost + rule[7] == 0 then kind = nil end

  -- A fixed window: counts requests, and checks the result. Not for a calendar, for denied requests
  -- that count, or for counts that could run into the window's index.
  if kind == 1 and #rule == 7 and rule[5] == 0 and limit < scale then
    local index = floor(now / window) + 1
    local none, one = index * scale, format('%.0f', cost)
    local full, sum = none + limit, cost
    for key = first, last do
      local name = KEYS[key]
      if times then sum = cost * times[key] end
      local number = sum <= limit and pcall('INCRBY', name, sum == cost and one or sum)
      if type(number) ~= 'number' then
        left[leaving + 1], left[leaving + 2], leaving = key, rule, leaving + 2
      elseif number >= none + sum and number <= full then
        found[key] = number - sum
      elseif number == sum then
        keep(name, true, format('%.0f', none + sum), index * window - now)
        found[key] = false
      elseif number < none + sum or number >= none + scale then
        call('INCRBY', name, -sum)
        left[leaving + 1], left[leaving + 2], leaving = key, rule, leaving + 2
      else
        call('INCRBY', name, -min(sum, ceil((number - full) / cost) * cost))
        found[key] = number - sum
      end
    end

  -- A sliding window, in the same way. Counts that do not fit into the integer are left.
  elseif kind == 2 then
    local most = min(limit, scale - 1)
    local final = floor(now / window) * window + 2 * window
    local ahead, square, one, sum = final - window - now, scale * scale, format('%.0f', cost), cost
    local none = final / window * square
    for key = first, last do
      local name, done = KEYS[key], false
      if times then sum = cost * times[key] end
      local number = sum <= most and pcall('INCRBY', name, sum == cost and one or sum)
      if type(number) == 'number' then
        local before = number - sum
        local current, previous = before % scale, 0
        if before >= none then
          previous = (before - none - current) / scale
        elseif before >= none - square then
          previous, current = current, 0
        else
          current = 0
        end
        local room, share = limit - current - sum, previous * ahead
        -- One of ours, neither from the future nor overflowed.
        done = (before == 0 or before >= square) and previous < scale and current + sum < scale
          and share <= LARGEST
        -- Past the largest number the right side is not exact, but exact enough.
        local fits = room >= 0 and share <= room * window
        done = done and (fits or sum == cost)
        if not (done and fits) then
          call('INCRBY', name, -sum)
        elseif before < none then
          keep(name, true, format('%.0f', none + previous * scale + sum), final - now)
        end
        found[key] = before > 0 and before
      end
      if not done then
        left[leaving + 1], left[leaving + 2], leaving = key, rule, leaving + 2
      end
    end

  -- A bucket that is new, or has an unchanged pace, and whose requests all fit.
  elseif kind == 4 then
    local pace, most, most_rest, cost_rest = limit, window, scale, rule[7]
    local rate = pace % RATE_LIMIT
    local sum, sum_rest, several = cost, cost_rest, false
    local it, cells, sub = bucket(), {}, string.sub
    -- How this pace looks in an integer, and in a state of eleven bytes.
    local digits, length_of_code, short = it.digits(pace), it.short(pace)
    local values = call('MGET', unpack(KEYS, first, last))
    for key = first, last do
      local raw, done = values[key - first + 1], false
      found[key] = raw
      if times then
        several = times[key] > 1
        sum, sum_rest = cost * times[key], cost_rest * times[key]
        local carried = floor(sum_rest / rate)
        sum, sum_rest = sum + carried, sum_rest - carried * rate
      end
      local length = raw and #raw or 11
      local is_whole = length > 15 and length < 20
      if (length == 11 or length == 21 or is_whole)
        and (not several or (sum <= most and rate < 65536)) then
        local head, low, rest, its_pace, round, full_at = 0, 0, 0, pace, 0, 0
        if is_whole then
          local code = tonumber(sub(raw, -4)) or 0
          local its_digits = code % PACES
          its_pace, full_at = its_digits == digits and pace, SINCE + (tonumber(sub(raw, 1, -5)) or 0)
          round = (code - its_digits) / PACES
        elseif length == 21 then
          full_at, rest, its_pace = parse('>I7I7I7', raw)
        elseif raw then
          head, low, rest, its_pace = parse('>BI6I2I2', raw)
          its_pace = length_of_code == 11 and its_pace == short and pace
          round, full_at = floor(head / BEFORE), head % BEFORE * HIGH + low
        end
        local micros = full_at - now
        if its_pace == pace and (micros < most or (micros == most and rest <= most_rest)) then
          if micros < 0 then micros, rest = 0, 0 end
          micros, rest = micros + sum, rest + sum_rest
          if rest >= rate then micros, rest = micros + 1, rest - rate end
          local later, cell = now + micros, cells[round] or it.step(round)
          local added, lasts = later - full_at, round > 0 and later - later % cell <= full_at
          cells[round] = cell
          if micros > most or (micros == most and rest > most_rest) then
            done = not several
          elseif lasts and is_whole and rest == 0 and added < LARGEST / DIGITS then
            done = type(pcall('INCRBY', KEYS[key], added * DIGITS)) == 'number'
          elseif lasts and not is_whole and low + added < HIGH then
            done = call('SETRANGE', KEYS[key], '0', pack('>BI6I2', head, low + added, rest))
          -- INCRBY would have checked the value, so it is checked here.
          elseif not is_whole or it.whole(raw) then
            done = it.keep(KEYS[key], rule, now, raw, later, rest, pace)
          end
        end
      end
      if not done then
        left[leaving + 1], left[leaving + 2], leaving = key, rule, leaving + 2
      end
    end

  else
    for key = first, last do
      left[leaving + 1], left[leaving + 2], leaving = key, rule, leaving + 2
    end
  end
end

if leaving == 0 and count == #KEYS then
  found[count + 1], found[count + 2] = now, mark
  return found
end
